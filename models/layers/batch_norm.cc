#include "models/layers/batch_norm.h"

#include "absl/strings/str_cat.h"
#include "framework/graph/variable.h"
#include "models/layers/frozen.h"
#include "ops/array.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/training.h"

namespace belfry::models {
namespace {

// The update reads the average when it runs, not before the step: a layer that is called several times in a step moves
// its averages once for each call, in the order of the calls.
void MoveAverage(const Scope& layer, const Variable& average, Output batch, double momentum) {
  if (!average.valid() || momentum == 1) return;  // of 1: nothing moves
  const Scope scope = layer.ColocateWith(average.node());
  const Output any_step = ops::Const<int64_t>(scope, 0);
  const Output updated =
      ops::ApplyMovingAverage(scope, average, any_step, batch, {.decay = momentum, .use_step = false});
  scope.AddToCollection(kUpdateOps, updated);
}

// True if the batch has examples. Depends on shapes only, so it folds to a constant when a plan is compiled.
Output HasExamples(const Scope& scope, Output x) {
  const Output rows = ops::Reshape(scope, ops::Slice(scope, ops::ShapeOf(scope, x), {0}, {1}), {});
  return ops::Greater(scope, rows, ops::ZerosLike(scope, rows));
}

// Combines the towers' statistics into those of all their examples, with d = tower's mean - mean of all: the variance
// is the mean of the towers' variances plus that of d^2 (Chan et al., "Algorithms for Computing the Sample Variance",
// 1983). The mean of all is known to a rounding error only, hence the mean of d, which corrects both. It takes two
// collectives, because the squares of deviations from anything but the mean would lose a small variance. The results
// do not depend on the center, so no gradient flows through it, and the backward pass has one collective.
ops::ChannelMomentsOutputs OverTowers(const Scope& scope, const ops::ChannelMomentsOutputs& tower) {
  const TowerGroup& group = scope.statistics_group();
  const std::string name = absl::StrCat(group.name, scope.random_path());
  const auto mean_of_towers = [&](absl::string_view what, const std::vector<Output>& values) {
    return ops::AllReduceMean(scope, {.group = absl::StrCat(name, what), .rank = group.rank, .size = group.size},
                              group.examples, values);
  };
  const Output center = mean_of_towers("/center", {ops::StopGradient(scope, tower.mean)})[0];
  const Output difference = ops::Sub(scope, tower.mean, center);
  const Output squares = ops::Add(scope, tower.variance, ops::Square(scope, difference));
  const std::vector<Output> means = mean_of_towers("", {difference, squares});
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
  const Output gamma = options.scale
                           ? GetVariable(layer, "gamma", shape, ConstantInitializer(options.gamma), trained).value()
                           : ops::Fill(layer, shape, options.gamma, dtype);
  const Variable beta = GetVariable(layer, "beta", shape, ZerosInitializer(), trained);
  const Variable mean = GetVariable(layer, "moving_mean", shape, ZerosInitializer(), moving);
  const Variable variance = GetVariable(layer, "moving_variance", shape, ConstantInitializer(1), moving);
  const bool frozen = IsFrozen(layer, mean) || IsFrozen(layer, variance);
  if (!options.training || frozen)
    return ops::BatchNormInference(layer, x, gamma, beta, mean, variance, options.epsilon);

  const auto move_averages = [&](const Scope& moving, Output batch_mean, Output batch_variance) {
    MoveAverage(moving, mean, batch_mean, options.momentum);
    MoveAverage(moving, variance, batch_variance, options.momentum);
  };
  if (layer.statistics_group().size > 1) {
    const auto [batch_mean, batch_variance] = OverTowers(layer, ops::ChannelMoments(layer, x));
    move_averages(layer, batch_mean, batch_variance);
    return ops::BatchNormInference(layer, x, gamma, beta, batch_mean, batch_variance, options.epsilon);
  }
  const ops::BatchNormOutputs normal = ops::BatchNorm(layer, x, gamma, beta, options.epsilon);
  const bool has_examples = x.shape()[0] != Shape::kUnknown && x.shape()[0] > 0;
  move_averages(has_examples ? layer : layer.OnlyIf(HasExamples(layer, x)), normal.mean, normal.variance);
  return normal.y;
}

}  // namespace belfry::models
