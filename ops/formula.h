// Formulas: the ops of math.h, array.h and nn.h as operators and functions of tensors, without a scope.
//
//   Output d = Norm(a - b, 1), same = batch["same"];  // both [N]
//   Output loss = Mean(same * Square(d) + (1 - same) * Square(Relu(1 - d)));
//   Output inner = At(images, {}, {1, -1}, {1, -1}), bright = Select(inner > 0.5, inner, 0);
//
// Each operator and function adds the nodes that the op of its name would, so shapes, dtypes, gradients and errors are
// those of the op. Operands are Outputs and Variables; of two, one may be a number, which takes the dtype of the other
// (ops::Operand). Nothing here needs a `using`: look-up by arguments finds it, also where `ops` is not named.
//
// The scope of a node comes from its operands, and its source line is the line of the formula:
// - Its name scope is the innermost one that contains all operands: "tower_0/" for "tower_0/batch/same" and
//   "tower_0/net/Norm".
// - Device, phase and tower are those of one operand: one in a tower, if there is any; among several, one of the latest
//   phase (update, backward, forward); among these, one with a device; else the first.
// - Variables do not count beside other operands, since towers may share them. A formula of nothing but variables that
//   were made in towers is an error; write ops::Square(tower, weights) there.
// - Control inputs, OnlyIf and names of Scope::Named are not passed on.
// To choose another scope, and in code that is given one (layers, gradient rules, optimizers), write the op with it.
//
// Errors stick to the graph, as those of ops do: operands of two graphs (an error of both) or of two towers, with both
// names and lines; and what the op refuses. A formula of invalid Outputs alone is an invalid Output.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/base/source_location.h"
#include "framework/graph/scope.h"
#include "framework/graph/variable.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::formulas {

using ops::Axes;
using ops::Operand;

// A tensor, with the line on which it stands.
struct Term {
  Term(Output tensor, SourceLocation where = SourceLocation::Current())  // NOLINT: implicit on purpose
      : output(tensor), location(where) {}
  Term(const Variable& variable, SourceLocation where = SourceLocation::Current())  // NOLINT: likewise
      : output(variable.value()), location(where) {}

  Output output;
  SourceLocation location;
};

// --- Operators ---

Output operator+(const Operand& a, const Operand& b);
Output operator-(const Operand& a, const Operand& b);
Output operator*(const Operand& a, const Operand& b);
Output operator/(const Operand& a, const Operand& b);  // floats only
Output operator-(const Term& x);
// x = x + y, and so on: another tensor, not an update of a variable.
Output& operator+=(Output& x, const Operand& y);
Output& operator-=(Output& x, const Operand& y);
Output& operator*=(Output& x, const Operand& y);
Output& operator/=(Output& x, const Operand& y);

// bool tensors. == and != tell whether two Outputs are the same one; Equal and NotEqual compare values.
Output operator<(const Operand& a, const Operand& b);
Output operator<=(const Operand& a, const Operand& b);
Output operator>(const Operand& a, const Operand& b);
Output operator>=(const Operand& a, const Operand& b);
Output Equal(const Operand& a, const Operand& b);
Output NotEqual(const Operand& a, const Operand& b);
// Logic of bool tensors: (x > 0) & !mask.
Output operator&(const Term& a, const Term& b);
Output operator|(const Term& a, const Term& b);
Output operator^(const Term& a, const Term& b);
Output operator!(const Term& x);

// --- Functions of elements ---

Output Abs(const Term& x);
Output Acos(const Term& x);
Output Asin(const Term& x);
Output Atan(const Term& x);
Output Atan2(const Operand& y, const Operand& x);
Output Cast(const Term& x, DType dtype);
Output Ceil(const Term& x);
Output ClipByValue(const Term& x, double low, double high);
Output Cos(const Term& x);
Output Cosh(const Term& x);
Output Elu(const Term& x, double alpha = 1);
Output Erf(const Term& x);
Output Erfc(const Term& x);
Output Exp(const Term& x);
Output Expm1(const Term& x);
Output Floor(const Term& x);
Output FloorDiv(const Operand& a, const Operand& b);
Output FloorMod(const Operand& a, const Operand& b);
Output Gelu(const Term& x, bool approximate = false);
Output IsFinite(const Term& x);
Output IsInf(const Term& x);
Output IsNan(const Term& x);
Output LeakyRelu(const Term& x, double alpha = 0.2);
Output Log(const Term& x);
Output Log1p(const Term& x);
Output LogSoftmax(const Term& logits, const ops::SoftmaxOptions& options = {});
Output Maximum(const Operand& a, const Operand& b);
Output Minimum(const Operand& a, const Operand& b);
Output Pow(const Operand& a, const Operand& b);
Output Reciprocal(const Term& x);
Output Relu(const Term& x);
Output Relu6(const Term& x);
Output Round(const Term& x);
Output RoundThrough(const Term& x);
Output Rsqrt(const Term& x);
Output Select(const Term& condition, const Operand& a, const Operand& b);
Output Selu(const Term& x);
Output Sigmoid(const Term& x);
Output Sign(const Term& x);
Output Silu(const Term& x);
Output Sin(const Term& x);
Output Sinh(const Term& x);
Output Softmax(const Term& logits, const ops::SoftmaxOptions& options = {});
Output Softplus(const Term& x);
Output Sqrt(const Term& x);
Output Square(const Term& x);
Output SquaredDifference(const Operand& a, const Operand& b);
Output StopGradient(const Term& x);
Output Tan(const Term& x);
Output Tanh(const Term& x);

// --- Reductions: Sum(x), Sum(x, 0), Sum(x, {0, -1}, /*keep_dims=*/true) ---

Output All(const Term& x, const Axes& axes = {}, bool keep_dims = false);
Output Any(const Term& x, const Axes& axes = {}, bool keep_dims = false);
Output ArgMax(const Term& x, int axis, DType index_type = DType::kInt64);
Output ArgMin(const Term& x, int axis, DType index_type = DType::kInt64);
Output L2Normalize(const Term& x, const Axes& axes = {}, double epsilon = 1e-12);
Output LogSumExp(const Term& x, const Axes& axes = {}, bool keep_dims = false);
Output Max(const Term& x, const Axes& axes = {}, bool keep_dims = false);
Output Mean(const Term& x, const Axes& axes = {}, bool keep_dims = false);
Output Min(const Term& x, const Axes& axes = {}, bool keep_dims = false);
Output Norm(const Term& x, const Axes& axes = {}, bool keep_dims = false);
Output Prod(const Term& x, const Axes& axes = {}, bool keep_dims = false);
Output Sum(const Term& x, const Axes& axes = {}, bool keep_dims = false);

// --- Losses ---

Output HuberLoss(const Term& predictions, const Term& targets, double delta = 1);
Output KlDivergence(const Term& p, const Term& log_q);
Output MeanSquaredLoss(const Term& predictions, const Term& targets);
Output SigmoidCrossEntropy(const Term& logits, const Term& labels);
Output SoftmaxCrossEntropy(const Term& logits, const Term& labels, const ops::CrossEntropyOptions& options = {});
Output SparseSoftmaxCrossEntropy(const Term& logits, const Term& labels,
                                 const ops::SparseCrossEntropyOptions& options = {});

// --- Products, shapes and parts ---

Output ExpandDims(const Term& x, int64_t axis);
Output Gather(const Term& params, const Term& indices, int64_t axis = 0);
Output MatMul(const Term& a, const Term& b, const ops::MatMulOptions& options = {});
Output Reshape(const Term& x, const ops::Extents& extents);
Output Squeeze(const Term& x, const std::vector<int64_t>& axes = {});
Output Transpose(const Term& x, const std::vector<int64_t>& perm = {});

// The part of an axis that At takes:
//   At(x, 2)              x[2] of Python, which removes the axis; -1 is the last element
//   At(x, {1, -1})        x[1:-1]
//   At(x, {1, {}})        x[1:]
//   At(x, {{}, {}, -1})   x[::-1]
//   At(x, {}, 0)          x[:, 0]
class Index {
 public:
  Index() = default;                                           // all of it
  Index(int64_t element) : begin_(element), element_(true) {}  // NOLINT: implicit on purpose
  Index(std::optional<int64_t> begin, std::optional<int64_t> end, int64_t stride = 1)
      : begin_(begin), end_(end), stride_(stride) {}

  bool is_element() const { return element_; }
  bool is_whole() const { return !begin_.has_value() && !end_.has_value() && stride_ == 1; }
  // The bounds of ops::StridedSlice.
  int64_t begin() const { return begin_.value_or(stride_ < 0 ? ops::kSliceEnd : 0); }
  int64_t end() const;
  int64_t stride() const { return stride_; }

 private:
  std::optional<int64_t> begin_, end_;
  int64_t stride_ = 1;
  bool element_ = false;
};
// Python's x[i, j, ...]: StridedSlice, and Squeeze of the axes of which an element is taken. Axes without an index are
// taken whole. Bounds of slices are clamped to the axis; an element outside is an error.
Output At(const Term& x, Index i, Index j = {}, Index k = {}, Index l = {}, Index m = {}, Index n = {});

}  // namespace belfry::formulas
