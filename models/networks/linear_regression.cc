#include "models/networks/linear_regression.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"

namespace belfry::models {
namespace {

bool Accepts(const Output& x, const Output& y) {
  if (!x.valid() || !y.valid() || y.shape().rank() != 1) return false;
  if (x.shape().rank() == 1) return true;
  return x.shape().rank() == 2 && x.shape()[1] != Shape::kUnknown;
}

std::string ShapeOf(const Output& x) { return x.valid() ? x.shape().ToString() : "nothing"; }

}  // namespace

LinearModel LinearRegression(OpScope scope, Output x, Output y) {
  if (!Accepts(x, y)) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("LinearRegression in scope '", scope.name(),
                                                       "' needs x [N], or [N, C] of known C, and y [N], not ",
                                                       ShapeOf(x), " and ", ShapeOf(y))));
    return {};
  }
  const bool line = x.shape().rank() == 1;
  const VariableOptions options = {.dtype = x.dtype()};
  LinearModel model;
  model.weight = GetVariable(scope, "weight", line ? Shape() : Shape({x.shape()[1], 1}), ZerosInitializer(), options);
  model.bias = GetVariable(scope, "bias", {}, ZerosInitializer(), options);
  if (!scope.status().ok()) return {};
  const Output product =
      line ? ops::Mul(scope, model.weight, x) : ops::Squeeze(scope, ops::MatMul(scope, x, model.weight), {1});
  model.prediction = ops::Add(scope, product, model.bias);
  model.loss = ops::Mean(scope, ops::SquaredDifference(scope, model.prediction, y));
  if (!scope.status().ok()) return {};
  return model;
}

}  // namespace belfry::models
