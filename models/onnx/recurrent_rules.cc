#include <cstring>
#include <optional>

#include "framework/base/status.h"
#include "models/onnx/exporter_impl.h"
#include "models/onnx/permute_impl.h"

namespace belfry::onnx {
namespace {

using std::string;

constexpr int64_t kStepsFirst[] = {1, 0, 2};  // [N, T, C] to [T, N, C], and back
constexpr int64_t kTransposed[] = {1, 0};

// Our op reads x weights + biases of all steps, ONNX's reads x.
struct Projection {
  string x;                      // [N, T, I]
  Output weights;                // a constant [I, gates H]; invalid: x is the projection
  std::optional<Output> biases;  // a constant [gates H]
};

// The projection that input 0 is the result of, if ops::Lstm or ops::Gru made it from constants; otherwise the input
// itself.
Projection FindProjection(Exporter& to) {
  const Projection itself = {.x = to.In(0)};
  const Node* node = to.node().input(0).node;
  if (node->op().name != "Reshape" && node->op().name != "ReshapeTo") return itself;
  Projection found;
  node = node->input(0).node;
  if (node->op().name == "BiasAdd") {
    found.biases = node->input(1);
    if (to.ConstantOf(*found.biases) == nullptr) return itself;
    node = node->input(0).node;
  }
  if (node->op().name != "MatMul" || node->attrs().Bool("transpose_a") || node->attrs().Bool("transpose_b")) {
    return itself;
  }
  found.weights = node->input(1);
  const Node* const rows = node->input(0).node;
  if (to.ConstantOf(found.weights) == nullptr || rows->op().name != "MergeAxes") return itself;
  if (rows->input(0).shape().rank() != 3 || rows->output(0).shape().rank() != 2) return itself;
  found.x = to.ValueOf(rows->input(0));
  return found;
}

Tensor Identity(DType dtype, int64_t size) {
  Tensor identity = Tensor::Zeros(dtype, {size, size});
  for (int64_t i = 0; i < size; ++i) {
    if (dtype == DType::kFloat64) identity.data<double>()[i * size + i] = 1;
    if (dtype == DType::kFloat32) identity.data<float>()[i * size + i] = 1;
  }
  return identity;
}

// [I, gates H], with the gates in ONNX's order, as [1, gates H, I].
Tensor WeightsOf(const Tensor& weights, absl::Span<const int64_t> order) {
  const Tensor transposed = Permuted(WithBlocks(weights, order), kTransposed);
  return transposed.Reshaped(transposed.shape().Insert(0, 1));
}

// Two biases [gates H], null ones 0, as [1, 2 gates H]: those of the input and of the state.
Tensor BiasesOf(const Tensor* input, const Tensor* state, DType dtype, int64_t columns,
                absl::Span<const int64_t> order) {
  Tensor both = Tensor::Zeros(input != nullptr   ? input->dtype()
                              : state != nullptr ? state->dtype()
                                                 : dtype,
                              {1, 2 * columns});
  auto* to = static_cast<char*>(both.raw());
  for (const Tensor* const biases : {input, state}) {
    if (biases != nullptr) std::memcpy(to, WithBlocks(biases->Reshaped({1, columns}), order).raw(), biases->bytes());
    to += both.bytes() / 2;
  }
  return both;
}

// Lstm and Gru, whose inputs are the projection, the recurrent weights, a GRU's recurrent biases, perhaps lengths [N],
// and perhaps states [N, H].
absl::Status WriteRecurrence(Exporter& to, int fixed, bool has_lengths, absl::Span<const int64_t> order,
                             NodeAttributes attributes) {
  const Tensor* const recurrent = to.ConstantIn(1);
  const Tensor* const state_biases = fixed > 2 ? to.ConstantIn(2) : nullptr;
  if (recurrent == nullptr || (fixed > 2 && state_biases == nullptr)) {
    return absl::UnimplementedError("its recurrent weights or biases are no constants");
  }
  const Projection projection = FindProjection(to);
  const int64_t units = recurrent->shape()[0], columns = recurrent->shape()[1];
  const Tensor weights =
      projection.weights.valid() ? *to.ConstantOf(projection.weights) : Identity(to.ComputeType(), columns);
  const Tensor* const biases = projection.biases ? to.ConstantOf(*projection.biases) : nullptr;
  std::vector<string> inputs = {
      to.Transpose(projection.x, kStepsFirst),
      to.Changed(projection.weights.valid() ? projection.weights : to.node().input(1), WeightsOf(weights, order)),
      to.Changed(1, WeightsOf(*recurrent, order)),
      to.Changed(projection.biases.value_or(to.node().input(fixed > 2 ? 2 : 1)),
                 BiasesOf(biases, state_biases, to.ComputeType(), columns, order))};
  inputs.push_back(has_lengths ? to.In(fixed) : "");
  const auto all = static_cast<int>(to.node().inputs().size());
  for (int i = fixed + (has_lengths ? 1 : 0); i < all; ++i) {
    inputs.push_back(to.Add("Unsqueeze", {to.In(i), to.Ints({0})}));
  }
  attributes.emplace_back("hidden_size", units);
  const int outputs = to.rule().onnx == "LSTM" ? 3 : 2;
  const std::vector<string> y = to.builder().AddAll(to.rule().onnx, inputs, outputs, attributes);
  to.Out(to.Transpose(to.Add("Squeeze", {y[0], to.Ints({1})}), kStepsFirst));
  for (int k = 1; k < outputs; ++k) {
    to.Out(to.Add("Squeeze", {y[static_cast<size_t>(k)], to.Ints({0})}), Layout::kAsGiven, k);
  }
  return absl::OkStatus();
}

constexpr int64_t kLstmOrder[] = {0, 3, 1, 2};  // i, o, f, g of i, f, g, o
constexpr int64_t kGruOrder[] = {1, 0, 2};      // z, r, n of r, z, n

absl::Status Lstm(Exporter& to) { return WriteRecurrence(to, 2, false, kLstmOrder, {}); }
absl::Status LstmOfLengths(Exporter& to) { return WriteRecurrence(to, 2, true, kLstmOrder, {}); }
absl::Status Gru(Exporter& to) {
  return WriteRecurrence(to, 3, false, kGruOrder, {{"linear_before_reset", int64_t{1}}});
}
absl::Status GruOfLengths(Exporter& to) {
  return WriteRecurrence(to, 3, true, kGruOrder, {{"linear_before_reset", int64_t{1}}});
}

absl::Status ReverseSequence(Exporter& to) {
  to.Out(to.Add("ReverseSequence", {to.In(0), to.CastTo(to.In(1), DType::kInt64)},
                {{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}}));
  return absl::OkStatus();
}

constexpr Rule kRecurrentRules[] = {
    {"Lstm", Lstm, "LSTM", false, true},
    {"LstmOfLengths", LstmOfLengths, "LSTM", false, true},
    {"Gru", Gru, "GRU", false, true},
    {"GruOfLengths", GruOfLengths, "GRU", false, true},
    {"ReverseSequence", ReverseSequence, "", true},
};

}  // namespace

absl::Span<const Rule> RecurrentRules() { return kRecurrentRules; }

}  // namespace belfry::onnx
