#include "optim/schedule.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/schedule.h"
#include "optim/root_scope.h"
#include "spdlog/fmt/fmt.h"

namespace belfry::optim {
namespace {

std::string Print(const AttrValue& value) {
  if (const double* number = std::get_if<double>(&value)) return fmt::format("{:.17g}", *number);
  if (const Tensor* tensor = std::get_if<Tensor>(&value)) {
    const std::vector<double> numbers = tensor->ToDoubles();
    return fmt::format("[{:.17g}]", fmt::join(numbers, ", "));
  }
  return AttrToString(value);
}

constexpr absl::string_view kLearningRate = "learning_rate";  // the variable

Tensor Numbers(const std::vector<double>& values) {
  return Tensor::Of<double>(absl::MakeConstSpan(values), {static_cast<int64_t>(values.size())});
}

bool IsRate(double rate) { return rate >= 0 && std::isfinite(rate); }

// The rate that a graph of its own computes.
absl::StatusOr<double> Computed(const Schedule& schedule, int64_t step) {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1", {.cpu_threads = 1}));
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output rate = schedule.Build(scope, ops::Const(scope, step));
  RETURN_IF_ERROR(graph.status());
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));
  ASSIGN_OR_RETURN(const std::vector<Tensor> values, session->Run({}, {rate}, {}));
  return values[0].scalar<float>();
}

}  // namespace

Schedule MakeSchedule(std::string op, Attrs attrs, std::shared_ptr<const Schedule> scaled) {
  Schedule schedule(0);
  schedule.op_ = std::move(op);
  schedule.attrs_ = std::move(attrs);
  schedule.scaled_ = std::move(scaled);
  return schedule;
}

Output Schedule::Build(const Scope& scope, Output step) const {
  if (nodes_ != nullptr) {
    if (*nodes_ == nullptr) {
      scope.Fail(absl::InvalidArgumentError("FromNodes was given no function"));
      return Output();
    }
    const Output rate = (*nodes_)(scope, step);
    if (!rate.valid() || (IsFloating(rate.dtype()) && rate.shape().rank() == 0)) {
      return ops::Cast(scope, rate, DType::kFloat32);
    }
    scope.Fail(absl::InvalidArgumentError(absl::StrCat("The rate that FromNodes computes is ", DTypeName(rate.dtype()),
                                                       " ", rate.shape().ToString(), "; expected a float scalar")));
    return Output();
  }
  if (op_.empty()) {
    if (!IsRate(rate_)) {
      scope.Fail(
          absl::InvalidArgumentError(absl::StrCat("The learning rate must be finite and at least 0, but is ", rate_)));
      return Output();
    }
    if (!adjustable_) return ops::Const(scope, static_cast<float>(rate_));
    return GetVariable(RootScope(scope, scope.replica()), kLearningRate, {}, ConstantInitializer(rate_),
                       {.trainable = false});
  }
  std::vector<Output> inputs = {step};
  if (scaled_ != nullptr) inputs.push_back(scaled_->Build(scope, step));
  return scope.Add(op_, inputs, attrs_);
}

double Schedule::At(int64_t step) const {
  if (nodes_ != nullptr) return Computed(*this, step).value_or(std::numeric_limits<double>::quiet_NaN());
  if (op_.empty()) return IsRate(rate_) ? rate_ : std::numeric_limits<double>::quiet_NaN();
  const auto rate = ops::RateAt(op_, attrs_, step, scaled_ == nullptr ? 0 : scaled_->At(step));
  return rate.ok() ? *rate : std::numeric_limits<double>::quiet_NaN();
}

std::string Schedule::ToString() const {
  if (nodes_ != nullptr) return absl::StrCat("FromNodes(", op_, ")");
  if (op_.empty()) return adjustable_ ? absl::StrCat("Adjustable(initial=", Print(rate_), ")") : Print(rate_);
  std::vector<std::string> parts;
  for (const auto& [name, value] : attrs_.values()) parts.push_back(absl::StrCat(name, "=", Print(value)));
  if (scaled_ != nullptr) parts.push_back(scaled_->ToString());
  return absl::StrCat(op_, "(", absl::StrJoin(parts, ", "), ")");
}

Schedule Piecewise(std::vector<int64_t> boundaries, std::vector<double> values) {
  return MakeSchedule("PiecewiseRate", {{"boundaries", std::move(boundaries)}, {"values", Numbers(values)}}, nullptr);
}

Schedule Interpolated(std::vector<int64_t> steps, std::vector<double> values) {
  return MakeSchedule("InterpolatedRate", {{"steps", std::move(steps)}, {"values", Numbers(values)}}, nullptr);
}

Schedule Exponential(double initial, int64_t decay_steps, double rate, bool staircase) {
  return MakeSchedule("ExponentialRate",
                      {{"initial", initial}, {"decay_steps", decay_steps}, {"rate", rate}, {"staircase", staircase}},
                      nullptr);
}

Schedule Polynomial(double initial, int64_t decay_steps, double end, double power) {
  return MakeSchedule("PolynomialRate",
                      {{"initial", initial}, {"decay_steps", decay_steps}, {"end", end}, {"power", power}}, nullptr);
}

Schedule Ramp(double initial, int64_t steps, double end, double power) {
  return MakeSchedule("RampRate", {{"initial", initial}, {"decay_steps", steps}, {"end", end}, {"power", power}},
                      nullptr);
}

Schedule Cosine(double initial, int64_t decay_steps, double floor) {
  return MakeSchedule("CosineRate", {{"initial", initial}, {"decay_steps", decay_steps}, {"floor", floor}}, nullptr);
}

Schedule WarmUp(Schedule schedule, int64_t warmup_steps, double start) {
  return MakeSchedule("WarmUpRate", {{"warmup_steps", warmup_steps}, {"start", start}},
                      std::make_shared<const Schedule>(std::move(schedule)));
}

Schedule FromNodes(NodesOfRate nodes) {
  Schedule schedule(0);
  schedule.nodes_ = std::make_shared<const NodesOfRate>(std::move(nodes));
  // Schedules with other functions have other texts (LearningRate), also when the former ones are gone.
  std::random_device random;
  schedule.op_ = absl::StrCat(absl::Hex(random()), absl::Hex(random()), absl::Hex(random()));
  return schedule;
}

Schedule Adjustable(double initial) {
  Schedule schedule(initial);
  schedule.adjustable_ = true;
  return schedule;
}

absl::Status SetLearningRate(Session& session, double rate) {
  if (!IsRate(rate)) {
    return absl::InvalidArgumentError(absl::StrCat("The learning rate must be finite and at least 0, but is ", rate));
  }
  int found = 0;
  for (const Variable& variable : session.graph().variables()) {
    if (variable.name() != kLearningRate) continue;
    RETURN_IF_ERROR(session.WriteVariable(variable, Tensor::Scalar(static_cast<float>(rate))));
    ++found;
  }
  if (found > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "No learning rate of the graph can be set; give the optimizer one that can, .learning_rate = "
      "optim::Adjustable(rate)");
}

}  // namespace belfry::optim
