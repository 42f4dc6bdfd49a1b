#include "models/layers/cross_entropy.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"

namespace belfry::models {
namespace {

bool CheckClassWeights(const Scope& scope, const Output& logits, const MeanCrossEntropyOptions& options) {
  const auto fail = [&](absl::string_view what) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("MeanCrossEntropy '", scope.name(), "': ", what)));
    return false;
  };
  const Output& weights = options.class_weights;
  if (options.label_smoothing != 0) return fail("label_smoothing and class_weights do not go together");
  const Shape expected{logits.shape()[-1]};
  if (IsFloating(weights.dtype()) && weights.shape().CompatibleWith(expected)) return true;
  return fail(absl::StrCat("class_weights must be floats of shape ", expected.ToString(), ", but are ", weights.name(),
                           ", ", DTypeName(weights.dtype()), " ", weights.shape().ToString()));
}

// The weight of each example, in the shape of the labels.
Output ExampleWeights(const Scope& scope, const Output& labels, DType dtype, const MeanCrossEntropyOptions& options) {
  Output table;
  if (options.class_weights.valid()) table = ops::StopGradient(scope, ops::Cast(scope, options.class_weights, dtype));
  if (!options.ignore_label.has_value()) return ops::Gather(scope, table, labels);
  // int32 labels are widened, since ignore_label may exceed them.
  const Output ignored = ops::Equal(scope, ops::Cast(scope, labels, DType::kInt64),
                                    ops::Const(scope, Tensor::Scalar<int64_t>(*options.ignore_label)));
  if (!table.valid()) return ops::Cast(scope, ops::LogicalNot(scope, ignored), dtype);
  // Rows are looked up for classes only, and a weight that is not finite must not reach ignored examples.
  const Output classes = ops::Select(scope, ignored, ops::ZerosLike(scope, labels), labels);
  return ops::Select(scope, ignored, ops::Fill(scope, {}, 0, dtype), ops::Gather(scope, table, classes));
}

}  // namespace

MeanLoss MeanCrossEntropy(OpScope scope, Output logits, Output labels, const MeanCrossEntropyOptions& options) {
  const std::string name = scope.wanted_name().empty() ? "cross_entropy" : scope.wanted_name();
  const Scope inner = scope.NameScope(absl::StrCat(name, "_terms"));
  const Output losses = ops::SparseSoftmaxCrossEntropy(
      inner, logits, labels, {.label_smoothing = options.label_smoothing, .ignore_label = options.ignore_label});
  if (!losses.valid()) return {};
  if (!options.class_weights.valid() && !options.ignore_label.has_value()) {
    const Output extents = ops::ShapeOf(inner, losses, DType::kInt64);
    return {ops::Mean(scope.Named(name), losses), ops::Prod(inner, ops::Cast(inner, extents, DType::kFloat32))};
  }
  if (options.class_weights.valid() && !CheckClassWeights(inner, logits, options)) return {};

  const DType dtype = losses.dtype();
  const Output weights = ExampleWeights(inner, labels, dtype, options);
  const Output total = ops::Sum(inner.Named("weight"), weights);
  // Losses of ignored examples are 0, so without class weights they need no factor.
  const Output sum = ops::Sum(inner, options.class_weights.valid() ? ops::Mul(inner, weights, losses) : losses);
  // 0 / 0 would have a gradient of NaN, which the towers' mean would keep.
  const auto constant = [&](double value) { return ops::Fill(inner, {}, value, dtype); };
  const Output empty = ops::Equal(inner, total, constant(0));
  const Output mean = ops::Div(inner, sum, ops::Select(inner, empty, constant(1), total));
  return {ops::Select(scope.Named(name), empty, constant(std::numeric_limits<double>::quiet_NaN()), mean),
          ops::Cast(inner, total, DType::kFloat32)};
}

}  // namespace belfry::models
