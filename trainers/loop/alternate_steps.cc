#include "trainers/loop/alternate_steps.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"

namespace belfry::trainers {
namespace {

size_t Towers(const models::TrainStep& step) { return step.towers.size() * static_cast<size_t>(step.micro_batches); }

absl::Status OfStep(const absl::Status& status, const std::string& name) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("Training step '", name, "': ", status.message()));
}

}  // namespace

AlternateSteps::AlternateSteps(Session& session, const models::TrainStep& first, absl::Span<const AlternateStep> steps,
                               TaskSync& tasks)
    : session_(session), first_(first) {
  for (const AlternateStep& other : steps) {
    const models::TrainStep& step = other.step == nullptr ? first : *other.step;  // Check refuses null
    others_.push_back(std::make_unique<Other>(Other{other, StepTable(session, step, tasks, {})}));
  }
}

absl::Status AlternateSteps::Check() const {
  std::vector<std::string> names = {first_.name};
  for (const auto& other : others_) {
    const AlternateStep& options = other->options;
    if (options.step == nullptr || options.step->update == nullptr) {
      return absl::InvalidArgumentError(
          "TrainerOptions::alternate_steps has a step that is null, or could not be built");
    }
    const std::string& name = options.step->name;
    for (const std::string& earlier : names) {
      if (!name.empty() && name != earlier) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("The training steps of a run need names of their own (ReplicateOptions::name), so that each "
                       "counts its own steps; ",
                       name.empty() ? "one of TrainerOptions::alternate_steps has none"
                                    : absl::StrCat("two are called '", name, "'")));
    }
    names.push_back(name);
    if (options.every < 1) {
      return absl::InvalidArgumentError(absl::StrCat("TrainerOptions::alternate_steps runs '", name, "' every ",
                                                     options.every, " steps; expected 1 or more"));
    }
    if (Towers(*options.step) != Towers(first_) || options.step->towers_in_all != first_.towers_in_all) {
      return absl::InvalidArgumentError(absl::StrCat("Training step '", name, "' has ", Towers(*options.step),
                                                     " towers, but the first step of the run has ", Towers(first_)));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> AlternateSteps::Settings() const {
  std::vector<std::string> lines;
  for (const auto& other : others_) {
    lines.push_back(absl::StrCat("training step '", other->step().name, "' every ", other->options.every));
  }
  return lines;
}

std::vector<std::string> AlternateSteps::Models() const {
  std::vector<std::string> lines;
  for (const auto& other : others_) {
    const std::vector<std::string> of_step = ModelLines(session_.graph(), other->step().towers[0]);
    lines.insert(lines.end(), of_step.begin(), of_step.end());
  }
  return lines;
}

absl::Status AlternateSteps::Start(int64_t steps, StepResults& results) {
  for (const auto& other : others_) {
    const models::TrainStep& step = other->step();
    ASSIGN_OR_RETURN(const Tensor count, session_.ReadVariable(step.global_step));
    ASSIGN_OR_RETURN(other->results, other->table.StartResults());
    const int64_t done = count.scalar<int64_t>() + other->results.skipped, expected = steps / other->options.every;
    if (done != expected) {
      return absl::FailedPreconditionError(
          absl::StrCat("Training step '", step.name, "' has run ", Counted(done, "time"), ", but after ",
                       Counted(steps, "step"), " of the run, every ", other->options.every, ", it has run ", expected,
                       "; resume with the same AlternateStep::every, from a checkpoint of the same run"));
    }
    other->results.step = done - 1;
    other->metrics = results.metrics.size();
    results.metrics.push_back({.name = step.name});
    for (const Metric& metric : other->results.metrics) {
      results.metrics.push_back({.name = absl::StrCat(step.name, "/", metric.name)});
    }
  }
  return absl::OkStatus();
}

absl::Status AlternateSteps::Prepare(const data::BatchShape& shape) {
  for (const auto& other : others_) {
    RETURN_IF_ERROR(OfStep(other->table.Find(shape, false).status(), other->step().name));
  }
  return absl::OkStatus();
}

absl::Status AlternateSteps::Run(const data::Batch& batch, int64_t number, bool read,
                                 absl::FunctionRef<void(const PreparedStep&)> running, StepResults& results) {
  for (const auto& other : others_) {
    if ((number + 1) % other->options.every != 0) continue;
    StepTable& table = other->table;
    ASSIGN_OR_RETURN(const absl::Span<const Tensor> feeds, table.Feeds(batch));
    ASSIGN_OR_RETURN(PreparedStep* const step, table.Find(table.ShapeOf(batch), false));
    running(*step);
    const std::string& name = other->step().name;
    RETURN_IF_ERROR(OfStep(table.RunSeries(batch), name));
    RETURN_IF_ERROR(OfStep(step->Run(feeds), name));
    if (!read && step->asynchronous()) continue;
    const int64_t own = (number + 1) / other->options.every - 1;
    RETURN_IF_ERROR(OfStep(table.Read(*step, own, batch, other->results, nullptr), name));
    results.metrics[other->metrics].value = other->results.loss;
    for (size_t i = 0; i < other->results.metrics.size(); ++i) {
      results.metrics[other->metrics + 1 + i].value = other->results.metrics[i].value;
    }
  }
  return absl::OkStatus();
}

absl::Status AlternateSteps::Wait() {
  for (const auto& other : others_) RETURN_IF_ERROR(OfStep(other->table.Wait(), other->step().name));
  return absl::OkStatus();
}

}  // namespace belfry::trainers
