#include <numeric>
#include <utility>

#include "models/onnx/exporter_impl.h"

namespace belfry::onnx {
namespace {

using std::string;

// The matrix product of a and b, whose last two axes are transposed where the op says so.
absl::Status MatMul(Exporter& to) {
  const auto operand = [&](int i, bool transposed) {
    const int rank = to.node().input(i).shape().rank();
    if (!transposed) return to.In(i);
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    std::iota(perm.begin(), perm.end(), int64_t{0});
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return to.Transpose(to.In(i), perm);
  };
  const bool transpose_a = to.attrs().Bool("transpose_a"), transpose_b = to.attrs().Bool("transpose_b");
  const bool matrices = to.node().input(0).shape().rank() == 2 && to.node().input(1).shape().rank() == 2;
  if (matrices && (transpose_a || transpose_b)) {
    to.Out(to.Add("Gemm", {to.In(0), to.In(1)}, {{"transA", int64_t{transpose_a}}, {"transB", int64_t{transpose_b}}}));
  } else {
    to.Out(to.Add("MatMul", {operand(0, transpose_a), operand(1, transpose_b)}));
  }
  return absl::OkStatus();
}

absl::Status Softmax(Exporter& to) {
  string x = to.In(0);
  const double temperature = to.attrs().Float("temperature");
  if (temperature != 1) x = to.Add("Mul", {x, to.Number(1 / temperature)});
  to.Out(to.Add(to.rule().onnx, {x}, {{"axis", to.attrs().Int("axis")}}));
  return absl::OkStatus();
}

// True if reducing images as [N, C, H, W] leaves the same order of axes as reducing them as [N, H, W, C].
bool KeepsOrder(const Exporter& to) {
  bool reduced[4] = {};
  for (const int64_t axis : to.attrs().Ints("axes")) reduced[axis < 0 ? axis + 4 : axis] = true;
  return to.attrs().Bool("keep_dims") || reduced[3] || (reduced[1] && reduced[2]);
}

absl::Status Reduce(Exporter& to) {
  std::vector<int64_t> axes = to.attrs().Ints("axes");
  if (axes.empty()) {
    to.SameAsInput();
    return absl::OkStatus();
  }
  const bool keep_dims = to.attrs().Bool("keep_dims");
  const Layout layout = to.IsChannelsFirst(0) && KeepsOrder(to) ? Layout::kChannelsFirst : Layout::kAsGiven;
  for (int64_t& axis : axes) {
    if (layout == Layout::kChannelsFirst) axis = kChannelsFirstAxis[axis < 0 ? axis + 4 : axis];
  }
  std::vector<string> inputs = {to.In(0, layout)};
  NodeAttributes attributes = {{"keepdims", int64_t{keep_dims}}};
  if (to.rule().onnx == "ReduceSum") {  // the first whose axes became an input
    inputs.push_back(to.Ints(axes));
  } else {
    attributes.emplace_back("axes", axes);
  }
  to.Out(to.Add(to.rule().onnx, inputs, attributes), keep_dims ? layout : Layout::kAsGiven);
  return absl::OkStatus();
}

absl::Status Cumsum(Exporter& to) {
  const string axis = to.builder().Number(static_cast<double>(to.attrs().Int("axis")), DType::kInt64);
  to.Out(
      to.Add("CumSum", {to.In(0), axis},
             {{"exclusive", int64_t{to.attrs().Bool("exclusive")}}, {"reverse", int64_t{to.attrs().Bool("reverse")}}}));
  return absl::OkStatus();
}

absl::Status ArgExtreme(Exporter& to) {
  const string index = to.Add(to.rule().onnx, {to.In(0)}, {{"axis", to.attrs().Int("axis")}, {"keepdims", int64_t{0}}});
  to.Out(to.node().output(0).dtype() == DType::kInt64 ? index : to.CastTo(index, DType::kInt32));
  return absl::OkStatus();
}

constexpr Rule kMatrixRules[] = {
    {"MatMul", MatMul},
    {"Softmax", Softmax, "Softmax"},
    {"LogSoftmax", Softmax, "LogSoftmax"},
    {"Sum", Reduce, "ReduceSum"},
    {"Mean", Reduce, "ReduceMean"},
    {"Max", Reduce, "ReduceMax", true},
    {"Min", Reduce, "ReduceMin", true},
    {"Prod", Reduce, "ReduceProd"},
    {"Cumsum", Cumsum},
    {"ArgMax", ArgExtreme, "ArgMax"},
    {"ArgMin", ArgExtreme, "ArgMin"},
};

}  // namespace

absl::Span<const Rule> MatrixRules() { return kMatrixRules; }

}  // namespace belfry::onnx
