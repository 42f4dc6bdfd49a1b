#include "absl/strings/str_cat.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"

namespace belfry::ops {
namespace {

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
  if (reduction != "mean" && reduction != "sum" && reduction != "broadcast") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown reduction '", reduction, "'; expected mean, sum or broadcast"));
  }
  return std::vector<Shape>(args.inputs.begin() + 1, args.inputs.end());
}

std::vector<Output> AddCollective(const OpScope& scope, absl::string_view reduction, const CollectiveOptions& options,
                                  Output weight, absl::Span<const Output> values) {
  std::vector<Output> inputs = {weight};
  inputs.insert(inputs.end(), values.begin(), values.end());
  return scope.AddAll("AllReduce", std::move(inputs),
                      {{"group", options.group},
                       {"rank", static_cast<int64_t>(options.rank)},
                       {"size", static_cast<int64_t>(options.size)},
                       {"reduction", std::string(reduction)}});
}

Output One(const OpScope& scope) {
  return scope.Add("Const", {}, {{"dtype", DType::kFloat32}, {"value", Tensor::Scalar(1.0f)}});
}

std::vector<Output> Gradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const std::string& reduction = node.attrs().String("reduction");
  if (reduction == "broadcast") {
    scope.Fail(absl::UnimplementedError(
        absl::StrCat("No gradient flows through the broadcast '", node.name(), "'; use StopGradient")));
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
