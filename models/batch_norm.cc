#include "models/batch_norm.h"

#include "absl/strings/str_cat.h"
#include "framework/graph/variable.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"

namespace belfry::models {
namespace {

void MoveAverage(const Scope& layer, const Variable& average, Output batch, double momentum) {
  if (!average.valid()) return;
  const Scope scope = layer.ColocateWith(average.node());
  const Output step = ops::Scale(scope, ops::Sub(scope, average, batch), 1 - momentum);
  scope.AddToCollection(kUpdateOps, ops::AssignSub(scope, average, step));
}

}  // namespace

Output BatchNorm(OpScope scope, absl::string_view name, Output x, const BatchNormOptions& options) {
  if (!x.valid() || x.shape().rank() == 0 || x.shape()[-1] == Shape::kUnknown) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        "BatchNorm '", scope.name(), name, "' needs an input [N, H, W, C] or [N, C] of known C",
        x.valid() ? absl::StrCat(", not ", x.name(), " ", x.shape().ToString()) : ", not one that was never made")));
    return Output();
  }
  const Shape shape = {x.shape()[-1]};
  const DType dtype = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Scope layer = scope.VariableScope(name);
  const VariableOptions trained = {.dtype = dtype};
  const VariableOptions moving = {.dtype = dtype, .trainable = false};
  const Variable gamma = GetVariable(layer, "gamma", shape, ConstantInitializer(1), trained);
  const Variable beta = GetVariable(layer, "beta", shape, ZerosInitializer(), trained);
  const Variable mean = GetVariable(layer, "moving_mean", shape, ZerosInitializer(), moving);
  const Variable variance = GetVariable(layer, "moving_variance", shape, ConstantInitializer(1), moving);
  if (!options.training) return ops::BatchNormInference(layer, x, gamma, beta, mean, variance, options.epsilon);

  const ops::BatchNormOutputs normal = ops::BatchNorm(layer, x, gamma, beta, options.epsilon);
  MoveAverage(layer, mean, normal.mean, options.momentum);
  MoveAverage(layer, variance, normal.variance, options.momentum);
  return normal.y;
}

}  // namespace belfry::models
