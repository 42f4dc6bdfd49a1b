#include "models/towers/tower_updates.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"
#include "ops/training.h"
#include "optim/clip.h"
#include "optim/global_step.h"
#include "optim/moving_average.h"
#include "optim/variable_filter.h"

namespace belfry::models {

using optim::GradientAndVariable;

TowerUpdates::TowerUpdates(const Scope& scope, const TowerRank& tower, const ReplicateOptions& options,
                           const optim::LossScale* loss_scale)
    : scope_(scope),
      tower_(tower),
      options_(options),
      sharded_(options.shard_optimizer && tower.towers > 1),
      loss_scale_(loss_scale) {
  if (loss_scale == nullptr) return;
  condition_ = ops::Placeholder(scope.NameScope("loss_scale/").Named("finite"), DType::kBool, {});
}

// 0 / 0 is NaN, which CheckNumerics reports. Numbers of examples depend on shapes only, so for a batch with examples it
// folds away when the plan is compiled, and runs on a CPU otherwise: a GPU would report the error only after the step,
// when variables have been updated. Weights that are stated stay where they are, since a GPU would wait for a CPU.
void TowerUpdates::CheckWeights(absl::Span<const BuiltTower> towers, absl::string_view who) {
  const bool stated = StatesWeights(towers);
  const Scope at = stated ? scope_ : scope_.Device("/cpu:0");
  const Output sum = ops::AddN(at, Weights(towers));
  const std::string message =
      absl::StrCat(who, stated ? " has losses of weight 0 alone (SetLossWeight)" : " was fed no examples",
                   ", so its mean loss is undefined (0 / 0)");
  scope_ = scope_.ControlDependencies({ops::CheckNumerics(at, ops::Div(at, sum, sum), message)});
}

std::vector<GradientAndVariable> TowerUpdates::Unscale(std::vector<GradientAndVariable> gradients) {
  if (loss_scale_ == nullptr) return gradients;
  auto [unscaled, finite] = loss_scale_->Unscale(scope_, gradients);
  if (sharded_) {
    const Output not_finite = ops::Cast(scope_, ops::LogicalNot(scope_, finite), DType::kFloat32);
    const Output sum = SumOfTowers(tower_, "not_finite", not_finite);
    finite = sum.valid() ? ops::Equal(scope_, sum, ops::ZerosLike(scope_, sum)) : Output();
  }
  scale_moved_ = loss_scale_->Update(scope_, finite);
  if (!scale_moved_.valid()) return {};
  scope_.graph().Bind(condition_, finite);
  scope_ = scope_.OnlyIf(finite);
  return unscaled;
}

std::vector<Output> TowerUpdates::Thawed(absl::Span<const GradientAndVariable> gradients) const {
  if (options_.frozen_until.empty()) return {};
  std::vector<Output> thawed;
  std::map<int64_t, Output> conditions;  // by steps
  for (const GradientAndVariable& pair : gradients) {
    int64_t steps = 0;
    for (const FrozenUntil& until : options_.frozen_until) {
      if (optim::MatchesPattern(pair.variable.name(), until.variables)) steps = std::max(steps, until.steps);
    }
    Output& condition = conditions[steps];
    if (steps > 0 && !condition.valid()) {
      const Variable step = optim::GlobalStep(scope_.Replica(pair.variable.replica()));
      const Scope at = scope_.NameScope("frozen_until").ColocateWith(step.node());
      condition = ops::GreaterEqual(at, step, ops::Const(at, steps));
    }
    thawed.push_back(condition);
  }
  return thawed;
}

void TowerUpdates::Clip(std::vector<GradientAndVariable>& gradients, absl::Span<const Output> thawed) const {
  std::vector<Output> values;
  for (size_t k = 0; k < gradients.size(); ++k) {
    Output value = gradients[k].gradient;
    if (value.valid() && !thawed.empty() && thawed[k].valid()) {
      value = ops::Select(scope_, thawed[k], value, ops::ZerosLike(scope_, value));
    }
    values.push_back(value);
  }
  if (sharded_) {
    const Output own = ops::GlobalNorm(scope_, values, DType::kFloat64);
    const Output norms = GatherScalars(tower_, "norms", {own}, DType::kFloat64)[0];
    const Output norm = ops::GlobalNorm(scope_, {norms}, DType::kFloat64);
    for (Output& value : values) value = ops::ClipToNorm(scope_, value, norm, options_.clip_global_norm);
  } else {
    values = optim::ClipByGlobalNorm(scope_, values, options_.clip_global_norm).gradients;
  }
  for (size_t k = 0; k < values.size(); ++k) gradients[k].gradient = values[k];
}

// Updates this tower's parts of the variables, gathers those of all towers, and increments the global step.
const Node* TowerUpdates::ApplyToParts(const optim::Optimizer& optimizer, absl::Span<const GradientAndVariable> parts,
                                       const GradientBuckets& buckets, absl::Span<const Output> thawed) const {
  const std::vector<Output> updated = optim::ApplyUpdates(scope_, optimizer, parts, thawed);
  std::vector<Output> done = optim::CountUpdates(scope_, optimizer, parts, updated, thawed);
  if (done.empty()) return nullptr;
  // The parts were updated only if the conditions held, so the gathered values need no condition of their own.
  const Scope assigning = scope_.NoControlDependencies();
  for (const auto& [variable, value] : buckets.GatherUpdated(tower_, parts, updated)) {
    const Scope at = assigning.InPhase(Phase::kUpdate, &variable.node()).ColocateWith(variable.node());
    done.push_back(ops::Assign(at, variable, value));
  }
  return scope_.status().ok() ? ops::Group(scope_.Named("train_op"), done) : nullptr;
}

const Node* TowerUpdates::Apply(const optim::Optimizer& optimizer, std::vector<GradientAndVariable> gradients,
                                const GradientBuckets& buckets, absl::Span<const Variable> averaged) {
  const std::vector<Output> thawed = Thawed(gradients);
  if (options_.clip_global_norm > 0) Clip(gradients, thawed);
  if (!scope_.status().ok()) return nullptr;
  const Node* applied = sharded_ ? ApplyToParts(optimizer, gradients, buckets, thawed)
                                 : optim::ApplyGradients(scope_, optimizer, gradients, thawed);
  if (applied != nullptr && !averaged.empty()) {
    const optim::ExponentialMovingAverage averages({.decay = options_.moving_average});
    applied = averages.Update(scope_, averaged, {Output{applied, 0}});
  }
  if (applied == nullptr || !scale_moved_.valid()) return applied;
  return ops::Group(scope_, {applied, scale_moved_.node});
}

const Node* TowerUpdates::Follow(absl::Span<const Node* const> after) const {
  const Scope following = scope_.NameScope("follow").ControlDependencies(after);
  std::map<int64_t, Output> due;  // by Following::every
  std::vector<Output> moved;
  for (const auto& [variable, of, rule] : followers_) {
    const Variable step = optim::GlobalStep(scope_.Replica(variable.replica()));
    Scope update = optim::UpdateScope(following, variable);
    if (rule->every > 1) {
      Output& condition = due[rule->every];
      if (!condition.valid()) {
        const Scope at = following.ColocateWith(step.node());
        const Output rest = ops::FloorMod(at, ops::ReadVariable(at, step), ops::Const(at, rule->every));
        condition = ops::Equal(at, rest, ops::ZerosLike(at, rest));
      }
      update = update.OnlyIf(condition);
    }
    // With a decay of 0 the bits of the other.
    moved.push_back(rule->decay == 0 ? ops::Assign(update, variable, of)
                                     : ops::ApplyMovingAverage(update, variable, step, of,
                                                               {.decay = rule->decay, .use_step = false}));
  }
  return scope_.status().ok() ? ops::Group(following, moved) : nullptr;
}

}  // namespace belfry::models
