#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::onnx {
namespace {

absl::Status MatMul(Importer& to) {
  const Scope& scope = to.scope();
  auto [a, transpose_a] = to.Matrix(0, false);
  auto [b, transpose_b] = to.Matrix(1, false);
  if (!a.valid() || !b.valid()) return absl::OkStatus();
  const bool row = a.shape().rank() == 1, column = b.shape().rank() == 1;
  if (a.shape().rank() == 0 || b.shape().rank() == 0) return absl::InvalidArgumentError("an operand is a scalar");
  if (row) a = ops::ExpandDims(scope, a, 0);
  if (column) b = ops::ExpandDims(scope, b, 1);
  Output y = ops::MatMul(scope, a, b, {.transpose_a = transpose_a, .transpose_b = transpose_b});
  if (column) y = ops::Squeeze(scope, y, {-1});
  if (row) y = ops::Squeeze(scope, y, {column ? -1 : -2});
  to.Out(y);
  return absl::OkStatus();
}

absl::Status Gemm(Importer& to) {
  const Scope& scope = to.scope();
  const auto [a, transpose_a] = to.Matrix(0, to.Int("transA", 0) != 0);
  const auto [b, transpose_b] = to.Matrix(1, to.Int("transB", 0) != 0);
  if (!a.valid() || !b.valid()) return absl::OkStatus();
  if (a.shape().rank() != 2 || b.shape().rank() != 2) return absl::InvalidArgumentError("an operand is no matrix");
  Output y = ops::MatMul(scope, a, b, {.transpose_a = transpose_a, .transpose_b = transpose_b});
  const double alpha = to.Float("alpha", 1), beta = to.Float("beta", 1);
  if (alpha != 1) y = ops::Scale(scope, y, alpha);
  if (to.Has(2) && beta != 0) {
    Output c = to.In(2);
    if (beta != 1) c = ops::Scale(scope, c, beta);
    const bool bias = c.valid() && y.valid() && c.shape().rank() == 1 && y.shape()[1] == c.shape()[0];
    y = bias ? ops::BiasAdd(scope, y, c) : ops::Add(scope, y, c);
  }
  to.Out(y);
  return absl::OkStatus();
}

absl::Status Einsum(Importer& to) {
  std::vector<Output> operands;
  for (int i = 0; i < to.InputCount(); ++i) operands.push_back(to.In(i));
  std::string equation = to.String("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  to.Out(ops::Einsum(to.scope(), equation, operands));
  return absl::OkStatus();
}

// Before opset 13, an axis stood for all axes from it on.
absl::Status Softmax(Importer& to) {
  const Scope& scope = to.scope();
  const Output x = to.In(0);
  if (!x.valid()) return absl::OkStatus();
  const int rank = x.shape().rank();
  const auto normal = [&](Output logits, int64_t axis) {
    return to.rule().op == "Softmax" ? ops::Softmax(scope, logits, {.axis = axis})
                                     : ops::LogSoftmax(scope, logits, {.axis = axis});
  };
  ASSIGN_OR_RETURN(const int64_t axis, AxisIn(Order::kOnnx, to.Int("axis", to.opset() < 13 ? 1 : -1), rank));
  if (to.opset() >= 13 || axis == rank - 1) {
    to.Out(normal(x, axis));
  } else {
    to.Out(ops::ReshapeLike(scope, normal(ops::MergeAxes(scope, x, axis, rank - 1), axis), x));
  }
  return absl::OkStatus();
}

absl::Status CumSum(Importer& to) {
  ASSIGN_OR_RETURN(const double axis, to.KnownNumber(1));
  const int rank = to.ShapeOf(0).rank();
  if (!(axis >= -rank && axis < rank)) return absl::InvalidArgumentError(absl::StrCat("there is no axis ", axis));
  to.Out(ops::Cumsum(to.scope(), to.In(0), static_cast<int>(axis),
                     {.exclusive = to.Int("exclusive", 0) != 0, .reverse = to.Int("reverse", 0) != 0}));
  return absl::OkStatus();
}

absl::Status TopK(Importer& to) {
  int64_t k = to.Int("k", 0);
  if (to.Has(1)) {
    ASSIGN_OR_RETURN(const double number, to.KnownNumber(1));
    if (!(number >= 0 && number < 1e9)) return absl::InvalidArgumentError("k is out of range");
    k = static_cast<int64_t>(number);
  }
  const Output x = to.In(0);
  if (!x.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t axis, AxisIn(Order::kOnnx, to.Int("axis", -1), x.shape().rank()));
  if (axis != x.shape().rank() - 1 || to.Int("largest", 1) == 0) {
    return absl::UnimplementedError("only the largest elements along the last axis are covered");
  }
  const ops::TopKOutputs top = ops::TopK(to.scope(), x, k);
  if (!top.indices.valid()) return absl::OkStatus();
  to.Out(top.values);
  to.Out(ops::Cast(to.scope(), top.indices, DType::kInt64), Order::kOnnx, 1);
  return absl::OkStatus();
}

constexpr ImportRule kMatrices[] = {
    {"MatMul", MatMul},      {"Gemm", Gemm},     {"Einsum", Einsum}, {"Softmax", Softmax},
    {"LogSoftmax", Softmax}, {"CumSum", CumSum}, {"TopK", TopK},
};

}  // namespace

absl::Span<const ImportRule> MatrixImports() { return kMatrices; }

}  // namespace belfry::onnx
