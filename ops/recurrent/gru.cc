#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/recurrent.h"
#include "ops/recurrent/gru_impl.h"
#include "ops/recurrent/problem_impl.h"
#include "ops/recurrent/recurrent_ops.h"

namespace belfry::ops {
namespace {

using recurrent::GradientOr0;

absl::StatusOr<std::vector<Shape>> GruShape(const ShapeArgs& args) {
  const auto states = static_cast<int>(args.inputs.size()) - recurrent::InputsAfter(3, args.dtypes).states;
  if (states > 1) return absl::InvalidArgumentError("needs at most one initial state");
  ASSIGN_OR_RETURN(const Shape y, recurrent::OutputShape(args, /*fixed=*/3, /*gates=*/3));
  const int64_t columns = y[2] == Shape::kUnknown ? Shape::kUnknown : 3 * y[2];
  if (!args.inputs[2].CompatibleWith({columns})) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs recurrent biases [3 H], but was given ", args.inputs[2].ToString()));
  }
  return std::vector<Shape>{y, Shape({y[0], y[2]}), Shape({y[0], y[1], columns}), y};
}

absl::StatusOr<std::vector<Shape>> GruGradShape(const ShapeArgs& args) {
  return std::vector<Shape>{args.inputs[0], args.inputs[5], args.inputs[0]};
}

double GruFlops(const KernelSpec& spec) { return recurrent::MakeProblem(spec).Flops(3); }

std::vector<Output> GruGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const recurrent::OptionalInputs optional = recurrent::InputsAfter(3, node);
  std::vector<Output> operands = {node.output(2), node.input(1), node.output(3), node.output(0)};
  for (int i = 0; i < 2; ++i) operands.push_back(GradientOr0(scope, dy[static_cast<size_t>(i)], node.output(i)));
  if (optional.lengths) operands.push_back(node.input(3));
  if (optional.has_states) operands.push_back(node.input(optional.states));
  std::vector<Output> gradients = scope.AddAll(absl::StrCat(node.op().name, "Grad"), std::move(operands));
  if (gradients.empty()) return std::vector<Output>(node.inputs().size());
  const Output dproducts = gradients[2];
  const Output initial = optional.has_states ? node.input(optional.states) : ZerosLike(scope, node.output(1));
  const Output of_weights = recurrent::WeightsGradient(scope, initial, node.output(0), dproducts);
  Output of_biases = Sum(scope, dproducts, {0, 1});
  if (dy[2].valid() && dy[3].valid()) {  // with respect to the projection and the products (recurrent/problem_impl.h)
    const std::vector<Output> parts = Split(scope, dy[2], 2, 3);
    if (!scope.status().ok()) return std::vector<Output>(node.inputs().size());
    of_biases = Add(scope, of_biases, Sum(scope, Concat(scope, {parts[0], parts[1], dy[3]}, 2), {0, 1}));
    gradients[0] = Add(scope, gradients[0], dy[2]);
  }
  std::vector<Output> of_inputs = {gradients[0], of_weights, of_biases};
  if (optional.lengths) of_inputs.push_back(Output());
  of_inputs.push_back(gradients[1]);
  of_inputs.resize(node.inputs().size());
  return of_inputs;
}

// The inputs of the gradient, with the projection in the place of the gates and 0, which is added to the products of
// n', in that of these, and the initial hidden state and the biases last.
std::vector<Output> GruSources(const Scope& scope, const Node& node) {
  std::vector<Output> inputs(node.inputs().begin(), node.inputs().end());
  const Node* const forward = recurrent::ForwardOf(scope, node);
  if (forward == nullptr) return inputs;
  inputs[0] = forward->input(0);
  inputs[2] = ZerosLike(scope, inputs[2]);
  if (!recurrent::InputsAfter(3, *forward).has_states) inputs.push_back(ZerosLike(scope, forward->output(1)));
  inputs.push_back(forward->input(2));
  return inputs;
}

Differentiable GruForward(const Scope& scope, const Node& node, absl::Span<const Output> inputs) {
  const Output biases = inputs[inputs.size() - 1], hidden = inputs[inputs.size() - 2],
               zero = ZerosLike(scope, inputs[2]);
  const Output more = Concat(scope, {zero, zero, inputs[2]}, 2);
  const std::vector<Output> projected = Unstack(scope, inputs[0], 1), added = Unstack(scope, more, 1);
  const Output lengths = recurrent::InputsAfter(6, node).lengths ? inputs[6] : Output();
  const recurrent::Unrolled all =
      recurrent::Unroll(scope, inputs[0], lengths, {hidden}, [&](int64_t t, const std::vector<Output>& states) {
        const auto at = static_cast<size_t>(t);
        const Output products = Add(scope, BiasAdd(scope, MatMul(scope, states[0], inputs[1]), biases), added[at]);
        const std::vector<Output> x = Split(scope, projected[at], 1, 3), h = Split(scope, products, 1, 3);
        const Output r = Sigmoid(scope, Add(scope, x[0], h[0])), z = Sigmoid(scope, Add(scope, x[1], h[1]));
        const Output n = Tanh(scope, Add(scope, x[2], Mul(scope, r, h[2])));
        return std::vector<Output>{Add(scope, n, Mul(scope, z, Sub(scope, states[0], n)))};
      });
  return {{all.y, all.states[0]}, {inputs[0], hidden, more}, {inputs[4], inputs[5]}};
}

}  // namespace

GruOutputs Gru(OpScope scope, Output x, Output weights, Output recurrent_weights, const GruOptions& options) {
  const Output projected = recurrent::Project(scope, "Gru", x, weights, options.biases);
  Output biases = options.recurrent_biases;
  if (!biases.valid() && projected.valid() && recurrent_weights.valid() && recurrent_weights.shape().rank() == 2) {
    const int64_t h = recurrent_weights.shape()[0];
    biases = Fill(scope, {h == Shape::kUnknown ? recurrent_weights.shape()[1] : 3 * h}, 0, projected.dtype());
  }
  std::vector<Output> inputs = {projected, recurrent_weights, biases};
  if (options.lengths.valid()) inputs.push_back(options.lengths);
  if (options.initial_hidden.valid()) inputs.push_back(options.initial_hidden);
  const std::vector<Output> outputs = scope.AddAll(options.lengths.valid() ? "GruOfLengths" : "Gru", std::move(inputs));
  if (outputs.empty()) return {};
  return {outputs[0], outputs[1]};
}

void RegisterGru(OpRegistry& registry) {
  for (const bool lengths : {false, true}) {
    const std::string name = lengths ? "GruOfLengths" : "Gru";
    registry.Add({.name = name,
                  .inputs = recurrent::WithOptional({{"projection"}, {"recurrent_weights"}, {"recurrent_biases"}},
                                                    lengths, "initial_hidden"),
                  .outputs = {{"y"}, {"hidden"}, {"gates"}, {"candidates"}},
                  .types = {{"T", kFloatTypes}},
                  .shape = GruShape,
                  .flops = GruFlops,
                  .gradient = GruGradient,
                  .in_place = {{0, 2}},
                  .kernels = Kernels<float, double, Half, BFloat16>(
                      "CPU", [](auto tag) { return &recurrent::MakeGru<typename decltype(tag)::type>; })});
  }
}

void RegisterGruGradients(OpRegistry& registry) {
  for (const bool lengths : {false, true}) {
    const std::string name = lengths ? "GruOfLengths" : "Gru";
    registry.Add(
        {.name = name + "Grad",
         .inputs = recurrent::WithOptional(
             {{"gates"}, {"recurrent_weights"}, {"candidates"}, {"y"}, {"dy"}, {"dhidden"}}, lengths, "initial_hidden"),
         .outputs = {{"dprojection"}, {"dinitial_hidden"}, {"dproducts"}},
         .types = {{"T", kFloatTypes}},
         .shape = GruGradShape,
         .flops = GruFlops,
         .gradient = GradientOfGradient(GruForward, GruSources),
         .in_place = {{0, 0}},
         .kernels = Kernels<float, double, Half, BFloat16>(
             "CPU", [](auto tag) { return &recurrent::MakeGruGrad<typename decltype(tag)::type>; })});
  }
}

}  // namespace belfry::ops
