#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/alignment.h"
#include "framework/base/check.h"
#include "ops/array.h"
#include "ops/collective.h"
#include "ops/collective/collective_ops.h"

namespace belfry::ops {
namespace {

constexpr absl::string_view kReductions[] = {"mean", "sum", "broadcast", "reduce_scatter", "all_gather"};

absl::StatusOr<std::vector<Shape>> AllReduceShape(const ShapeArgs& args) {
  const int64_t rank = args.attrs.Int("rank"), size = args.attrs.Int("size");
  if (rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " is outside [0, ", size, ")"));
  }
  if (args.inputs[0].rank() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the weight must be a scalar, but has shape ", args.inputs[0].ToString()));
  }
  const std::string& reduction = args.attrs.String("reduction");
  if (!absl::c_linear_search(kReductions, reduction)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown reduction '", reduction, "'; expected one of ", absl::StrJoin(kReductions, ", ")));
  }
  return std::vector<Shape>(args.inputs.begin() + 1, args.inputs.end());
}

std::vector<Output> AddCollective(const OpScope& scope, absl::string_view reduction, const CollectiveOptions& options,
                                  Output weight, absl::Span<const Output> values) {
  std::vector<Output> inputs = {weight};
  inputs.insert(inputs.end(), values.begin(), values.end());
  std::vector<Output> results = scope.AddAll("AllReduce", std::move(inputs),
                                             {{"group", options.group},
                                              {"rank", static_cast<int64_t>(options.rank)},
                                              {"size", static_cast<int64_t>(options.size)},
                                              {"reduction", std::string(reduction)}});
  results.resize(values.size());  // invalid ones after an error
  return results;
}

Output One(const OpScope& scope) {
  return scope.Add("Const", {}, {{"dtype", DType::kFloat32}, {"value", Tensor::Scalar(1.0f)}});
}

std::vector<Output> Gradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const std::string& reduction = node.attrs().String("reduction");
  if (reduction != "mean" && reduction != "sum") {
    scope.Fail(absl::UnimplementedError(
        absl::StrCat("No gradient flows through the ", reduction, " '", node.name(), "'; use StopGradient")));
    return {};
  }
  std::vector<Output> slopes;
  for (size_t i = 0; i < dy.size(); ++i) {
    slopes.push_back(dy[i].valid() ? dy[i] : scope.Add("ZerosLike", {node.output(static_cast<int>(i))}));
  }
  std::vector<Output> gradients = AddCollective(scope, reduction,
                                                {.group = absl::StrCat(node.attrs().String("group"), "/gradient"),
                                                 .rank = static_cast<int>(node.attrs().Int("rank")),
                                                 .size = static_cast<int>(node.attrs().Int("size"))},
                                                node.input(0), slopes);
  gradients.insert(gradients.begin(), Output());  // the weight has none
  return gradients;
}

}  // namespace

std::vector<Output> AllReduceMean(OpScope scope, const CollectiveOptions& options, Output weight,
                                  absl::Span<const Output> values) {
  return AddCollective(scope, "mean", options, weight, values);
}

std::vector<Output> AllReduceSum(OpScope scope, const CollectiveOptions& options, absl::Span<const Output> values) {
  return AddCollective(scope, "sum", options, One(scope), values);
}

std::vector<Output> Broadcast(OpScope scope, const CollectiveOptions& options, absl::Span<const Output> values) {
  return AddCollective(scope, "broadcast", options, One(scope), values);
}

std::vector<FlatPart> PartsOfTower(const CollectiveOptions& options, DType dtype, absl::Span<const Shape> shapes) {
  BELFRY_CHECK(0 <= options.rank && options.rank < options.size);
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  const auto lines = [&](const Shape& shape) {
    return static_cast<int64_t>(AlignUp(static_cast<size_t>(shape.elements() * size)));
  };
  int64_t bytes = 0;
  for (const Shape& shape : shapes) bytes += lines(shape);
  const auto slice = static_cast<int64_t>(SliceBytes(static_cast<size_t>(bytes), static_cast<size_t>(options.size)));
  const int64_t from = slice * options.rank / size, to = from + slice / size;
  std::vector<FlatPart> parts;
  int64_t at = 0;  // where the value begins in the bucket, in elements
  for (const Shape& shape : shapes) {
    const int64_t begin = std::clamp(from - at, int64_t{0}, shape.elements());
    const int64_t end = std::clamp(to - at, begin, shape.elements());
    parts.push_back(begin < end ? FlatPart{begin, end - begin} : FlatPart{});
    at += lines(shape) / size;
  }
  return parts;
}

std::vector<Output> ReduceScatterMean(OpScope scope, const CollectiveOptions& options, Output weight,
                                      absl::Span<const Output> values) {
  const std::vector<Output> means = AddCollective(scope, "reduce_scatter", options, weight, values);
  std::vector<Shape> shapes;
  for (const Output& mean : means) {
    shapes.push_back(mean.shape());
    if (mean.shape().known()) continue;
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("collective '", options.group, "': the shape of ", mean.name(),
                                                       ", ", mean.shape().ToString(), ", must be known")));
    return std::vector<Output>(values.size());
  }
  if (means.empty()) return {};  // values of none, of which there is no dtype
  const std::vector<FlatPart> parts = PartsOfTower(options, means[0].dtype(), shapes);
  std::vector<Output> outputs;
  for (size_t k = 0; k < parts.size(); ++k) {
    outputs.push_back(FlatSlice(scope, means[k], parts[k].begin, parts[k].size));
  }
  return outputs;
}

std::vector<Output> AllGather(OpScope scope, const CollectiveOptions& options, absl::Span<const Output> parts,
                              absl::Span<const Shape> shapes) {
  const auto fail = [&](absl::string_view why) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("collective '", options.group, "': ", why)));
    return std::vector<Output>(shapes.size());
  };
  if (!scope.status().ok() || shapes.empty()) return std::vector<Output>(shapes.size());
  if (options.rank < 0 || options.rank >= options.size) {
    return fail(absl::StrCat("rank ", options.rank, " is outside [0, ", options.size, ")"));
  }
  if (parts.size() != shapes.size()) return fail(absl::StrCat(parts.size(), " parts of ", shapes.size(), " values"));
  if (!absl::c_all_of(shapes, [](const Shape& shape) { return shape.known(); }))
    return fail("all shapes must be known");
  const std::vector<FlatPart> places = PartsOfTower(options, parts[0].dtype(), shapes);
  for (size_t k = 0; k < places.size(); ++k) {
    if (parts[k].shape() == Shape{places[k].size}) continue;
    return fail(absl::StrCat("part ", k, " has shape ", parts[k].shape().ToString(), ", but tower ", options.rank,
                             " has ", places[k].size, " elements of that value"));
  }
  std::vector<Output> padded;
  for (size_t k = 0; k < places.size(); ++k) {
    const int64_t after = shapes[k].elements() - places[k].begin - places[k].size;
    padded.push_back(Pad(scope, parts[k], {{places[k].begin, after}}));
  }
  std::vector<Output> values = AddCollective(scope, "all_gather", options, One(scope), padded);
  for (size_t k = 0; k < values.size(); ++k) values[k] = Reshape(scope, values[k], shapes[k]);
  return values;
}

void RegisterCollectiveOps(OpRegistry& registry) {
  registry.Add({.name = "AllReduce",
                .inputs = {{.name = "weight", .type = "float32"}, {.name = "values", .list = true}},
                .outputs = {{.name = "results", .list = true}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"group", std::string(), true},
                          {"rank", int64_t{0}, true},
                          {"size", int64_t{1}, true},
                          {"reduction", std::string("mean")}},
                .shape = AllReduceShape,
                .gradient = Gradient,
                .stateful = true,
                .kind = OpKind::kAllReduce});
}

}  // namespace belfry::ops
