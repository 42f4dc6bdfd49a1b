#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/copy/copy_impl.h"
#include "ops/copy/copy_ops.h"
#include "ops/copy/join_impl.h"

namespace belfry::ops {
namespace {

constexpr int64_t kMaxParts = 1 << 20;  // every part is an output of the node

// Extents of the parts of an axis of `extent`: `num` equal ones, or `sizes`, one of which may be -1.
absl::StatusOr<std::vector<int64_t>> PartSizes(const Attrs& attrs, int64_t extent) {
  std::vector<int64_t> sizes = attrs.Ints("sizes");
  const int64_t num = attrs.Int("num");
  if (sizes.empty()) {
    if (num < 1) return absl::InvalidArgumentError(absl::StrCat("cannot split into ", num, " parts"));
    if (num > kMaxParts) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot split into ", num, " parts; at most ", kMaxParts, " are supported"));
    }
    if (extent == Shape::kUnknown) return std::vector<int64_t>(num, Shape::kUnknown);
    if (extent % num != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot split an extent of ", extent, " into ", num, " equal parts"));
    }
    return std::vector<int64_t>(num, extent / num);
  }
  const auto rest = std::find(sizes.begin(), sizes.end(), Shape::kUnknown);
  const bool has_rest = rest != sizes.end();
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), has_rest ? int64_t{1} : int64_t{0}, AddExtents);
  const bool bad = std::count_if(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; }) > has_rest;
  if (bad || (extent != Shape::kUnknown && (has_rest ? sum > extent : sum != extent))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sizes [", absl::StrJoin(sizes, ", "), "] do not add up to the extent ", extent, "; at most one may be -1"));
  }
  if (has_rest && extent != Shape::kUnknown) *rest = extent - sum;
  return sizes;
}

absl::StatusOr<std::vector<Shape>> SplitShape(const ShapeArgs& args) {
  const Shape& whole = args.inputs[0];
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.attrs.Int("axis"), whole.rank()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, PartSizes(args.attrs, whole[axis]));
  std::vector<Shape> parts(sizes.size(), whole);
  for (size_t i = 0; i < sizes.size(); ++i) parts[i].set_dim(axis, sizes[i]);
  return parts;
}

absl::StatusOr<std::vector<Shape>> SplitLikeShape(const ShapeArgs& args) {
  const Shape& whole = args.inputs[0];
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.attrs.Int("axis"), whole.rank()));
  std::vector<Shape> parts(args.inputs.begin() + 1, args.inputs.end());
  int64_t sum = 0;
  for (const Shape& part : parts) {
    if (part.rank() != whole.rank() || !part.Remove(axis).CompatibleWith(whole.Remove(axis))) {
      return absl::InvalidArgumentError(
          absl::StrCat(part.ToString(), " is not a part of ", whole.ToString(), " along axis ", axis));
    }
    sum = sum == Shape::kUnknown || part[axis] == Shape::kUnknown ? Shape::kUnknown : sum + part[axis];
  }
  if (sum != Shape::kUnknown && whole[axis] != Shape::kUnknown && sum != whole[axis]) {
    return absl::InvalidArgumentError(
        absl::StrCat("the parts have ", sum, " elements along axis ", axis, ", but the whole has ", whole[axis]));
  }
  return parts;
}

absl::StatusOr<std::vector<Shape>> UnstackShape(const ShapeArgs& args) {
  const Shape& whole = args.inputs[0];
  ASSIGN_OR_RETURN(const int axis, CanonicalAxis(args.attrs.Int("axis"), whole.rank()));
  const int64_t num = args.attrs.Int("num");
  if (num < 0 || num > kMaxParts || (whole[axis] != Shape::kUnknown && whole[axis] != num)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot unstack axis ", axis, " of ", whole.ToString(), " into ", num, " tensors"));
  }
  return std::vector<Shape>(num, whole.Remove(axis));
}

absl::StatusOr<Kernel> MakeSplit(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const JoinPlan plan, PlanSplit(spec));
  const size_t size = SizeOf(spec.inputs[0].dtype);
  std::vector<StridedCopy> copies;
  int64_t column = 0;
  for (const int64_t columns : plan.columns) {
    ASSIGN_OR_RETURN(StridedCopy copy,
                     StridedCopy::Make(size, {{plan.rows, plan.width, columns}, {columns, 1, 1}}, column, 0));
    copies.push_back(std::move(copy));
    column += columns;
  }
  return Kernel{[copies = std::move(copies)](const KernelContext& context) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].Run(context.inputs[0], context.outputs[i]);
    return absl::OkStatus();
  }};
}

// The gradients of all outputs, with zeros for outputs that have none.
std::vector<Output> Filled(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> parts(dy.begin(), dy.end());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].valid()) parts[i] = ZerosLike(scope, node.output(static_cast<int>(i)));
  }
  return parts;
}

std::vector<Output> SplitGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> dx(node.inputs().size());
  dx[0] = Concat(scope, Filled(scope, node, dy), node.attrs().Int("axis"));
  return dx;
}

std::vector<Output> UnstackGrad(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  return {Stack(scope, Filled(scope, node, dy), node.attrs().Int("axis"))};
}

// After an error, as many invalid outputs as the caller expects.
std::vector<Output> AsMany(std::vector<Output> parts, int64_t num) {
  constexpr int64_t kMaxParts = 1 << 16;
  if (parts.empty()) parts.resize(static_cast<size_t>(std::clamp<int64_t>(num, 0, kMaxParts)));
  return parts;
}

OpDef Parts(absl::string_view name, ShapeFunction shape, GradientFunction gradient) {
  return {.name = std::string(name),
          .inputs = {{.name = "value"}},
          .outputs = {{.name = "output", .list = true}},
          .types = {{"T", kAnyType}},
          .attrs = {{"axis", int64_t{0}, true}},
          .shape = std::move(shape),
          .gradient = std::move(gradient),
          .kernels = AnyTypeKernels(MakeSplit)};
}

}  // namespace

std::vector<Output> Split(OpScope scope, Output x, int64_t axis, int64_t num) {
  return AsMany(scope.AddAll("Split", {x}, {{"axis", axis}, {"num", num}}), num);
}
std::vector<Output> Split(OpScope scope, Output x, int64_t axis, std::vector<int64_t> sizes) {
  const auto num = static_cast<int64_t>(sizes.size());
  return AsMany(scope.AddAll("Split", {x}, {{"axis", axis}, {"sizes", std::move(sizes)}}), num);
}
std::vector<Output> Unstack(OpScope scope, Output x, int64_t axis, int64_t num) {
  if (num < 0 && x.valid()) {
    const absl::StatusOr<int> canonical = CanonicalAxis(axis, x.shape().rank());
    if (canonical.ok()) num = x.shape()[*canonical];
  }
  return AsMany(scope.AddAll("Unstack", {x}, {{"axis", axis}, {"num", num}}), num);
}

void RegisterSplitOps(OpRegistry& registry) {
  OpDef split = Parts("Split", SplitShape, SplitGrad);
  split.attrs.push_back({"num", int64_t{0}});
  split.attrs.push_back({"sizes", std::vector<int64_t>()});
  registry.Add(std::move(split));
  OpDef split_like = Parts("SplitLike", SplitLikeShape, SplitGrad);
  split_like.inputs.push_back({.name = "likes", .list = true, .shape_only = true});
  registry.Add(std::move(split_like));
  OpDef unstack = Parts("Unstack", UnstackShape, UnstackGrad);
  unstack.attrs.push_back({"num", int64_t{0}, true});
  registry.Add(std::move(unstack));
}

}  // namespace belfry::ops
