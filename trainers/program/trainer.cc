#include "trainers/program/trainer.h"

#include <memory>
#include <string>
#include <utility>

#include "trainers/callbacks/early_stopping.h"
#include "trainers/callbacks/log_callback.h"
#include "trainers/callbacks/progress_callback.h"
#include "trainers/callbacks/step_tracer.h"
#include "trainers/ledger/replay.h"
#include "trainers/ledger/run_ledger.h"

namespace belfry::trainers {
namespace {

// A replay has the plans of the run, with summaries, too, and nothing that only looks at it.
TrainerOptions ForReplay(TrainerOptions options) {
  if (options.resume.replay.empty()) return options;
  options.quiet = true;
  options.evaluate = nullptr;
  options.evaluate_every = options.patience = 0;
  options.restore_best = false;
  options.trace = {};
  options.stop = nullptr;
  return options;
}

// Comes before the log, which cuts its files back.
class LedgerStart final : public Callback {
 public:
  explicit LedgerStart(std::shared_ptr<RunLedger> ledger) : ledger_(std::move(ledger)) {}
  absl::Status OnStart(TrainingState& state) override { return ledger_->Begin(state); }

 private:
  const std::shared_ptr<RunLedger> ledger_;
};

OwnCallbacks MakeCallbacks(const TrainerOptions& options, const TrainingState& state) {
  OwnCallbacks own;
  const auto add = [&](auto callback) { own.first.push_back(std::move(callback)); };
  const auto ledger = std::make_shared<RunLedger>(RunLedgerOptions{.directory = options.directory,
                                                                   .settings = options.metadata,
                                                                   .data_paths = options.tasks.data_paths,
                                                                   .timeout = options.tasks.timeout});
  add(std::make_shared<LedgerStart>(ledger));
  const std::string unit = options.unit.empty() ? "examples" : options.unit;
  // First, since the log keeps the evaluation before unless nothing is left to train.
  if (options.patience > 0) add(std::make_shared<EarlyStopping>(options.patience));
  add(std::make_shared<LogCallback>(LogCallbackOptions{.metrics_file = options.metrics_file,
                                                       .directory = options.directory,
                                                       .log_every = options.log_every,
                                                       .unit = unit,
                                                       .units_per_example = options.units_per_example,
                                                       .summaries = options.summaries}));
  add(std::make_shared<ProgressCallback>(
      ProgressCallbackOptions{.quiet = options.quiet,
                              .unit = unit,
                              .examples = options.units_per_example == 1 ? unit : "examples",
                              .units_per_example = options.units_per_example,
                              .resume_note = options.resume.note}));
  if (options.trace.first >= 0 && state.world.rank() == 0) {
    add(std::make_shared<StepTracer>(state.session.devices(), options.trace));
  }
  if (!options.resume.replay.empty()) own.last.push_back(std::make_shared<Replay>(options.resume.replay));
  own.last.push_back(ledger);
  return own;
}

}  // namespace

Trainer::Trainer(Session& session, const models::TrainStep& step, data::BatchSource& input, TrainerOptions options)
    : TrainingLoop(session, step, input, ForReplay(std::move(options)), MakeCallbacks) {}

}  // namespace belfry::trainers
