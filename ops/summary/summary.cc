#include "ops/summary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ops/array.h"
#include "ops/summary/summary_impl.h"
#include "ops/summary/summary_ops.h"

namespace belfry::ops {
namespace {

constexpr DType kImageTypes[] = {DType::kUInt8, DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

absl::StatusOr<std::vector<Shape>> ScalarShape(const ShapeArgs& args) {
  const Shape& x = args.inputs[0];
  if (x.rank() == 0) return std::vector<Shape>{x};
  return absl::InvalidArgumentError(
      absl::StrCat("x is ", x.ToString(), ", not a scalar; did you mean its ops::Mean, or a HistogramSummary?"));
}

absl::StatusOr<std::vector<Shape>> ImageShape(const ShapeArgs& args) {
  const Shape& x = args.inputs[0];
  if (x.rank() != 3 && x.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("x is ", x.ToString(), "; expected [N, H, W, C] or [H, W, C]"));
  }
  const int64_t channels = x[-1];
  if (channels != Shape::kUnknown && channels != 1 && channels != 3 && channels != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("x has ", channels, " channels; expected 1 (grey), 3 (RGB) or 4 (RGBA)"));
  }
  if (args.attrs.Int(kMaxImages) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_images is ", args.attrs.Int(kMaxImages), "; expected at least 1"));
  }
  return std::vector<Shape>{x};
}

OpDef View(absl::string_view name, absl::Span<const DType> types, std::vector<AttrDef> attrs, ShapeFunction shape) {
  return {.name = std::string(name),
          .inputs = {{.name = "x"}},
          .outputs = {{.name = "y"}},
          .types = {{"T", types}},
          .attrs = std::move(attrs),
          .shape = std::move(shape),
          .gradient = [](const Scope&, const Node&, absl::Span<const Output> dy) { return std::vector<Output>{dy[0]}; },
          .kind = OpKind::kView};
}

// The wanted tag, with a suffix if another summary of the graph already has it.
std::string UniqueTag(const Scope& scope, const std::string& wanted) {
  const std::vector<Output> others = scope.graph().GetCollection(kSummaries);
  const auto taken = [&](const std::string& tag) {
    return std::any_of(others.begin(), others.end(), [&](const Output& other) {
      return IsSummary(*other.node) && other.node->attrs().String(kTag) == tag;
    });
  };
  std::string tag = wanted;
  for (int suffix = 1; taken(tag); ++suffix) tag = absl::StrCat(wanted, "_", suffix);
  return tag;
}

// Makes a node name from a tag, which may be any text.
std::string NodeName(absl::string_view tag, absl::string_view op) {
  std::string name(absl::StripSuffix(tag, "/"));
  for (char& c : name) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '-' && c != '/') c = '_';
  }
  if (name.empty() || !(absl::ascii_isalnum(name[0]) || name[0] == '.')) name.insert(0, "tag");
  return absl::StrCat(name, "/", op);
}

Output AddSummary(const Scope& scope, absl::string_view op, absl::string_view tag, Output x, Attrs attrs) {
  attrs.Set(kTag, UniqueTag(scope, absl::StrCat(scope.name(), tag)));
  const Output summary = scope.Named(NodeName(tag, op)).Add(op, {x}, std::move(attrs));
  scope.AddToCollection(kSummaries, summary);
  return summary;
}

}  // namespace

Output ScalarSummary(OpScope scope, absl::string_view tag, Output x) {
  return AddSummary(scope, kScalarSummary, tag, x, {});
}

Output HistogramSummary(OpScope scope, absl::string_view tag, Output x) {
  return AddSummary(scope, kHistogramSummary, tag, x, {});
}

Output ImageSummary(OpScope scope, absl::string_view tag, Output x, int64_t max_images) {
  return AddSummary(scope, kImageSummary, tag, x, {{kMaxImages, max_images}});
}

Output MergeSummary(OpScope scope, absl::Span<const Output> summaries) {
  if (!scope.status().ok()) return Output();
  if (summaries.empty()) {
    scope.Fail(absl::InvalidArgumentError("MergeSummary: there are no summaries to merge"));
    return Output();
  }
  const Scope inner = scope.NameScope(scope.wanted_name().empty() ? kMergeSummary : scope.wanted_name());
  std::vector<Output> parts;
  std::vector<absl::string_view> names;
  for (const Output& x : summaries) {
    if (!x.valid() || !IsSummary(*x.node)) {
      scope.Fail(absl::InvalidArgumentError(
          absl::StrCat("MergeSummary: ", x.valid() ? x.name() : "an invalid Output",
                       " is not a summary; expected an output of ScalarSummary, HistogramSummary or ImageSummary")));
      return Output();
    }
    // Extents that are unknown until the feeds are given precede the elements.
    for (int axis = 0; axis < x.shape().rank(); ++axis) {
      if (x.shape()[axis] != Shape::kUnknown) continue;
      parts.push_back(Cast(inner, Slice(inner, ShapeOf(inner, x), {axis}, {1}), DType::kFloat32));
    }
    parts.push_back(Reshape(inner, Cast(inner, x, DType::kFloat32), {-1}));
    names.push_back(x.node->name());
  }
  const Output packed = parts.size() == 1 ? parts[0] : Concat(inner, parts, 0);
  return inner.Add(kMergeSummary, {packed}, {{kSummaryNodes, absl::StrJoin(names, " ")}});
}

Output MergeAllSummaries(OpScope scope, absl::string_view collection) {
  return MergeSummary(scope, scope.graph().GetCollection(collection, scope.name()));
}

void RegisterSummaryOps(OpRegistry& registry) {
  const auto unchanged = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
    return std::vector<Shape>{args.inputs[0]};
  };
  registry.Add(View(kScalarSummary, kAnyType, {{kTag, std::string(), true}}, ScalarShape));
  registry.Add(View(kHistogramSummary, kAnyType, {{kTag, std::string(), true}}, unchanged));
  registry.Add(View(kImageSummary, kImageTypes, {{kTag, std::string(), true}, {kMaxImages, int64_t{3}}}, ImageShape));
  registry.Add(View(kMergeSummary, kAnyType, {{kSummaryNodes, std::string(), true}}, unchanged));
}

}  // namespace belfry::ops
