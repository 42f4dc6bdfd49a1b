#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/recurrent.h"
#include "ops/recurrent/lstm_impl.h"
#include "ops/recurrent/problem_impl.h"
#include "ops/recurrent/recurrent_ops.h"

namespace belfry::ops {
namespace {

using recurrent::GradientOr0;

absl::StatusOr<std::vector<Shape>> LstmShape(const ShapeArgs& args) {
  if (args.inputs.size() != 2 && args.inputs.size() != 4) {
    return absl::InvalidArgumentError("needs initial_hidden and initial_cell, or neither");
  }
  ASSIGN_OR_RETURN(const Shape y,
                   recurrent::OutputShape(args.inputs[0], args.inputs[1], args.inputs.subspan(2), /*gates=*/4));
  const int64_t columns = y[2] == Shape::kUnknown ? Shape::kUnknown : 4 * y[2];
  const Shape last = {y[0], y[2]}, gates = {y[0], y[1], columns};
  return std::vector<Shape>{y, last, last, y, gates};
}

absl::StatusOr<std::vector<Shape>> LstmGradShape(const ShapeArgs& args) {
  return std::vector<Shape>{args.inputs[0], args.inputs[4], args.inputs[5]};
}

double LstmFlops(const KernelSpec& spec) { return recurrent::MakeProblem(spec).Flops(4); }

std::vector<Output> LstmGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const bool given = node.inputs().size() > 2;
  std::vector<Output> operands = {node.output(4), node.input(1), node.output(3)};
  for (int i = 0; i < 3; ++i) operands.push_back(GradientOr0(scope, dy[static_cast<size_t>(i)], node.output(i)));
  if (given) operands.push_back(node.input(3));
  std::vector<Output> gradients = scope.AddAll("LstmGrad", std::move(operands));
  if (gradients.empty()) return std::vector<Output>(node.inputs().size());
  const Output initial = given ? node.input(2) : ZerosLike(scope, node.output(1));
  gradients.insert(gradients.begin() + 1, recurrent::WeightsGradient(scope, initial, node.output(0), gradients[0]));
  gradients.resize(node.inputs().size());
  return gradients;
}

}  // namespace

LstmOutputs Lstm(OpScope scope, Output x, Output weights, Output recurrent_weights, const LstmOptions& options) {
  const Output projected = recurrent::Project(scope, "Lstm", x, weights, options.biases);
  std::vector<Output> inputs = {projected, recurrent_weights};
  for (const Output& state : {options.initial_hidden, options.initial_cell}) {
    if (state.valid()) inputs.push_back(state);
  }
  const bool wide = projected.valid() && projected.dtype() == DType::kFloat64;
  const std::vector<Output> outputs =
      scope.AddAll("Lstm", std::move(inputs), {{"U", wide ? DType::kFloat64 : DType::kFloat32}});
  if (outputs.empty()) return {};
  return {outputs[0], outputs[1], outputs[2]};
}

void RegisterLstm(OpRegistry& registry) {
  const std::vector<TypeVar> types = {{"T", kFloatTypes}, {"U", kWideFloatTypes}};
  const ArgDef cells = {.name = "cells", .type = "U"};
  registry.Add({.name = "Lstm",
                .inputs = {{"projection"}, {"recurrent_weights"}, {.name = "initial", .list = true}},
                .outputs = {{"y"}, {"hidden"}, {"cell"}, cells, {"gates"}},
                .types = types,
                .shape = LstmShape,
                .flops = LstmFlops,
                .gradient = LstmGradient,
                .in_place = {{0, 4}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &recurrent::MakeLstm<typename decltype(tag)::type>; })});
  registry.Add({.name = "LstmGrad",
                .inputs = {{"gates"},
                           {"recurrent_weights"},
                           cells,
                           {"dy"},
                           {"dhidden"},
                           {"dcell"},
                           {.name = "initial_cell", .list = true}},
                .outputs = {{"dprojection"}, {"dinitial_hidden"}, {"dinitial_cell"}},
                .types = types,
                .shape = LstmGradShape,
                .flops = LstmFlops,
                .gradient = NoSecondDerivative(),
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &recurrent::MakeLstmGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
