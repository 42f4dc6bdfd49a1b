#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/math.h"
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
  const Output of_weights = recurrent::WeightsGradient(scope, initial, node.output(0), gradients[0]);
  if (dy[4].valid()) {  // with respect to the projection (recurrent/problem_impl.h)
    gradients[0] = Add(scope, gradients[0], dy[4]);
    const Output first = Squeeze(scope, Slice(scope, dy[4], {0, 0, 0}, {-1, 1, -1}), {1});
    gradients[1] = Add(scope, gradients[1], MatMul(scope, first, node.input(1), {.transpose_b = true}));
  }
  gradients.insert(gradients.begin() + 1, of_weights);
  if (optional.lengths) gradients.insert(gradients.begin() + 2, Output());
  gradients.resize(node.inputs().size());
  return gradients;
}

// The inputs of the gradient, with the projection in the place of the gates, and the initial cell and hidden state
// last.
std::vector<Output> LstmSources(const Scope& scope, const Node& node) {
  std::vector<Output> inputs(node.inputs().begin(), node.inputs().end());
  const Node* const forward = recurrent::ForwardOf(scope, node);
  if (forward == nullptr) return inputs;
  inputs[0] = forward->input(0);
  const recurrent::OptionalInputs optional = recurrent::InputsAfter(2, *forward);
  if (!optional.has_states) inputs.push_back(ZerosLike(scope, forward->output(2)));
  inputs.push_back(optional.has_states ? forward->input(optional.states) : ZerosLike(scope, forward->output(1)));
  return inputs;
}

Differentiable LstmForward(const Scope& scope, const Node& node, absl::Span<const Output> inputs) {
  const Output hidden = inputs[inputs.size() - 1], cell = inputs[inputs.size() - 2];
  const std::vector<Output> projected = Unstack(scope, inputs[0], 1);
  const Output lengths = recurrent::InputsAfter(6, node).lengths ? inputs[6] : Output();
  const recurrent::Unrolled all =
      recurrent::Unroll(scope, inputs[0], lengths, {hidden, cell}, [&](int64_t t, const std::vector<Output>& states) {
        const Output products = MatMul(scope, states[0], inputs[1]);
        const std::vector<Output> sums = Split(scope, Add(scope, projected[static_cast<size_t>(t)], products), 1, 4);
        const Output kept = Mul(scope, Sigmoid(scope, sums[1]), states[1]);
        const Output c = Add(scope, kept, Mul(scope, Sigmoid(scope, sums[0]), Tanh(scope, sums[2])));
        return std::vector<Output>{Mul(scope, Sigmoid(scope, sums[3]), Tanh(scope, c)), c};
      });
  return {{all.y, all.states[0], all.states[1]}, {inputs[0], hidden, cell}, {inputs[3], inputs[4], inputs[5]}};
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
         .gradient = GradientOfGradient(LstmForward, LstmSources),
         .in_place = {{0, 0}},
         .kernels = Kernels<float, double, Half, BFloat16>(
             "CPU", [](auto tag) { return &recurrent::MakeLstmGrad<typename decltype(tag)::type>; })});
  }
}

}  // namespace belfry::ops
