// The prepared training steps of a run, by the shape of their batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/batch_source.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "trainers/callbacks/callback.h"
#include "trainers/loop/planned_step.h"
#include "trainers/loop/task_sync.h"

namespace belfry::trainers {

// Aborted, naming the step, if the loss is NaN or infinite. `cause`: what is known of it; if empty, the error says what
// to do.
absl::Status CheckLoss(double loss, int64_t step, absl::string_view cause = "");

// Borrows its arguments. Not thread-safe.
class StepTable {
 public:
  // `summaries`: fetched by the steps with summaries.
  StepTable(Session& session, const models::TrainStep& step, TaskSync& tasks, std::vector<Output> summaries)
      : session_(session), step_(step), tasks_(tasks), summaries_(std::move(summaries)) {}

  // Calls `prepared` with the purpose and the plan of each step that is prepared from now on.
  using PreparedFunction = std::function<absl::Status(absl::string_view name, const Plan& plan)>;
  void OnPrepared(PreparedFunction prepared) { on_prepared_ = std::move(prepared); }

  bool has_summaries() const { return !summaries_.empty(); }
  // The shape of a batch.
  data::BatchShape ShapeOf(const data::Batch& batch) const;
  // The step for a batch of that shape, which is prepared when it is first asked for. All tasks must then ask for
  // it, though not all with summaries. Errors: those of Session::Prepare; FailedPrecondition if the tasks' plans run
  // other collectives.
  absl::StatusOr<PreparedStep*> Find(const data::BatchShape& shape, bool with_summaries);
  // A value of the batch that no model can use; empty if there is none.
  std::string FaultOf(const data::Batch& batch) const;
  // The tensors to feed to it, valid until the next call; none with towers in series. InvalidArgument if the batch, of
  // a source of the user's own, is not divided as data::RangeOfTower says.
  absl::StatusOr<absl::Span<const Tensor>> Feeds(const data::Batch& batch);
  // Runs the towers in series on the batch, which Feeds has checked, and waits for them; the step that Find returns
  // then applies the sums. Does nothing if there are none in series. Errors: those of Session::Prepare and
  // PreparedStep::Run.
  absl::Status RunSeries(const data::Batch& batch);
  // Waits until the last runs of all steps are done. Errors: those that occurred after PreparedStep::Run returned.
  absl::Status Wait();
  // Waits for the step, which has number `number`, and reads its results; with summaries also these. Aborted if the
  // loss is not finite, naming a value of the batch that explains it, or loss scaling has skipped 100 steps in a row.
  // The first of results.metrics are the step's.
  absl::Status Read(PreparedStep& step, int64_t number, const data::Batch& batch, StepResults& results,
                    std::vector<Tensor>* summaries);

  // Results with the names of the step's metrics, and with the steps that were skipped before.
  absl::StatusOr<StepResults> StartResults() const;

 private:
  struct Prepared {
    std::unique_ptr<PreparedStep> plain, with_summaries;
    std::vector<std::string> collectives;  // of either
  };

  // The runs for a batch of that shape, by index in the series.
  absl::StatusOr<absl::Span<PreparedStep* const>> FindRuns(const data::BatchShape& shape);
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(const PlannedStep& planned);

  Session& session_;
  const models::TrainStep& step_;
  TaskSync& tasks_;
  const std::vector<Output> summaries_;
  PreparedFunction on_prepared_;
  std::map<data::BatchShape, Prepared> prepared_;
  std::vector<Tensor> feeds_;
  std::map<std::vector<int64_t>, std::unique_ptr<PreparedStep>> runs_;  // by the shapes of all feeds
  std::map<data::BatchShape, std::vector<PreparedStep*>> runs_of_batch_;
  std::vector<Tensor> indices_, offsets_;  // scalars to feed, by tower of this process
};

}  // namespace belfry::trainers
