#include <string>

#include "absl/strings/str_cat.h"
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
  const auto states = static_cast<int>(args.inputs.size()) - recurrent::InputsAfter(2, args.dtypes).states;
  if (states != 0 && states != 2) {
    return absl::InvalidArgumentError("needs initial_hidden and initial_cell, or neither");
  }
  ASSIGN_OR_RETURN(const Shape y, recurrent::OutputShape(args, /*fixed=*/2, /*gates=*/4));
  const int64_t columns = y[2] == Shape::kUnknown ? Shape::kUnknown : 4 * y[2];
  const Shape last = {y[0], y[2]}, gates = {y[0], y[1], columns};
  return std::vector<Shape>{y, last, last, y, gates};
}

absl::StatusOr<std::vector<Shape>> LstmGradShape(const ShapeArgs& args) {
  return std::vector<Shape>{args.inputs[0], args.inputs[4], args.inputs[5]};
}

double LstmFlops(const KernelSpec& spec) { return recurrent::MakeProblem(spec).Flops(4); }

std::vector<Output> LstmGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const recurrent::OptionalInputs optional = recurrent::InputsAfter(2, node);
  std::vector<Output> operands = {node.output(4), node.input(1), node.output(3)};
  for (int i = 0; i < 3; ++i) operands.push_back(GradientOr0(scope, dy[static_cast<size_t>(i)], node.output(i)));
  if (optional.lengths) operands.push_back(node.input(2));
  if (optional.has_states) operands.push_back(node.input(optional.states + 1));
  std::vector<Output> gradients = scope.AddAll(absl::StrCat(node.op().name, "Grad"), std::move(operands));
  if (gradients.empty()) return std::vector<Output>(node.inputs().size());
  const Output initial = optional.has_states ? node.input(optional.states) : ZerosLike(scope, node.output(1));
  gradients.insert(gradients.begin() + 1, recurrent::WeightsGradient(scope, initial, node.output(0), gradients[0]));
  if (optional.lengths) gradients.insert(gradients.begin() + 2, Output());
  gradients.resize(node.inputs().size());
  return gradients;
}

std::vector<TypeVar> LstmTypes() { return {{"T", kFloatTypes}, {"U", kWideFloatTypes}}; }
ArgDef CellsArg() { return {.name = "cells", .type = "U"}; }

}  // namespace

LstmOutputs Lstm(OpScope scope, Output x, Output weights, Output recurrent_weights, const LstmOptions& options) {
  const Output projected = recurrent::Project(scope, "Lstm", x, weights, options.biases);
  std::vector<Output> inputs = {projected, recurrent_weights};
  if (options.lengths.valid()) inputs.push_back(options.lengths);
  for (const Output& state : {options.initial_hidden, options.initial_cell}) {
    if (state.valid()) inputs.push_back(state);
  }
  const bool wide = projected.valid() && projected.dtype() == DType::kFloat64;
  const std::vector<Output> outputs =
      scope.AddAll(options.lengths.valid() ? "LstmOfLengths" : "Lstm", std::move(inputs),
                   {{"U", wide ? DType::kFloat64 : DType::kFloat32}});
  if (outputs.empty()) return {};
  return {outputs[0], outputs[1], outputs[2]};
}

void RegisterLstm(OpRegistry& registry) {
  for (const bool lengths : {false, true}) {
    const std::string name = lengths ? "LstmOfLengths" : "Lstm";
    registry.Add({.name = name,
                  .inputs = recurrent::WithOptional({{"projection"}, {"recurrent_weights"}}, lengths, "initial"),
                  .outputs = {{"y"}, {"hidden"}, {"cell"}, CellsArg(), {"gates"}},
                  .types = LstmTypes(),
                  .shape = LstmShape,
                  .flops = LstmFlops,
                  .gradient = LstmGradient,
                  .in_place = {{0, 4}},
                  .kernels = Kernels<float, double, Half, BFloat16>(
                      "CPU", [](auto tag) { return &recurrent::MakeLstm<typename decltype(tag)::type>; })});
  }
}

void RegisterLstmGradients(OpRegistry& registry) {
  for (const bool lengths : {false, true}) {
    const std::string name = lengths ? "LstmOfLengths" : "Lstm";
    registry.Add(
        {.name = name + "Grad",
         .inputs = recurrent::WithOptional(
             {{"gates"}, {"recurrent_weights"}, CellsArg(), {"dy"}, {"dhidden"}, {"dcell"}}, lengths, "initial_cell"),
         .outputs = {{"dprojection"}, {"dinitial_hidden"}, {"dinitial_cell"}},
         .types = LstmTypes(),
         .shape = LstmGradShape,
         .flops = LstmFlops,
         .gradient = NoSecondDerivative(),
         .in_place = {{0, 0}},
         .kernels = Kernels<float, double, Half, BFloat16>(
             "CPU", [](auto tag) { return &recurrent::MakeLstmGrad<typename decltype(tag)::type>; })});
  }
}

}  // namespace belfry::ops
