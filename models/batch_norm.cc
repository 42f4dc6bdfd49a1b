#include "models/batch_norm.h"

#include "absl/strings/str_cat.h"
#include "framework/graph/variable.h"
#include "ops/array.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"

namespace belfry::models {
namespace {

void MoveAverage(const Scope& layer, const Variable& average, Output batch, Output rate) {
  if (!average.valid()) return;
  const Scope scope = layer.ColocateWith(average.node());
  const Output step = ops::Mul(scope, ops::Sub(scope, average, batch), rate);
  scope.AddToCollection(kUpdateOps, ops::AssignSub(scope, average, step));
}

// 1 if the batch has examples, otherwise 0. Depends on shapes only, so it folds to a constant when a plan is compiled.
Output HasExamples(const Scope& scope, Output x, DType dtype) {
  const Output rows = ops::Reshape(scope, ops::Slice(scope, ops::ShapeOf(scope, x), {0}, {1}), {});
  return ops::Cast(scope, ops::Minimum(scope, rows, ops::Const(scope, 1)), dtype);
}

// Combines the towers' statistics into those of all their examples. It averages mean(d) and mean(variance + d^2), where
// d = mean - moving mean, which is the same in all towers. So one collective is enough, and the variance is not lost in
// the difference of two large squares.
ops::ChannelMomentsOutputs OverTowers(const Scope& scope, const ops::ChannelMomentsOutputs& tower, Output moving_mean) {
  const TowerGroup& group = scope.statistics_group();
  const Output center = ops::StopGradient(scope, moving_mean);
  const Output difference = ops::Sub(scope, tower.mean, center);
  const Output squares = ops::Add(scope, tower.variance, ops::Square(scope, difference));
  const std::vector<Output> means = ops::AllReduceMean(
      scope, {.group = absl::StrCat(group.name, scope.random_path()), .rank = group.rank, .size = group.size},
      group.examples, {difference, squares});
  return {ops::Add(scope, means[0], center), ops::Relu(scope, ops::Sub(scope, means[1], ops::Square(scope, means[0])))};
}

}  // namespace

Output BatchNorm(OpScope scope, absl::string_view name, Output x, const BatchNormOptions& options) {
  if (!x.valid() || x.shape().rank() == 0 || x.shape()[-1] == Shape::kUnknown) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        "BatchNorm '", scope.name(), name, "' needs an input [N, H, W, C] or [N, C] of known C",
        x.valid() ? absl::StrCat(", not ", x.name(), " ", x.shape().ToString()) : ", not an invalid Output")));
    return Output();
  }
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    scope.Fail(absl::InvalidArgumentError(
        absl::StrCat("BatchNorm '", scope.name(), name, "': momentum must be in [0, 1], but is ", options.momentum)));
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

  const Output rate = ops::Fill(layer, {}, 1 - options.momentum, dtype);
  if (layer.statistics_group().size > 1) {
    const auto [batch_mean, batch_variance] = OverTowers(layer, ops::ChannelMoments(layer, x), mean);
    MoveAverage(layer, mean, batch_mean, rate);
    MoveAverage(layer, variance, batch_variance, rate);
    return ops::BatchNormInference(layer, x, gamma, beta, batch_mean, batch_variance, options.epsilon);
  }
  const ops::BatchNormOutputs normal = ops::BatchNorm(layer, x, gamma, beta, options.epsilon);
  const Output rate_if_any = ops::Mul(layer, rate, HasExamples(layer, x, dtype));
  MoveAverage(layer, mean, normal.mean, rate_if_any);
  MoveAverage(layer, variance, normal.variance, rate_if_any);
  return normal.y;
}

}  // namespace belfry::models
