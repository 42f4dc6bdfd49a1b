#include "trainers/loop/model_outputs.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/world.h"
#include "trainers/loop/dealt_batches_impl.h"

namespace belfry::trainers {
namespace {

// Replaces the rows of this process, batches rank, rank + size ..., by those of all.
absl::Status GatherRows(World& world, absl::Time deadline, int64_t batch_bytes, Tensor& rows) {
  char* const bytes = static_cast<char*>(rows.raw());
  const auto total = static_cast<int64_t>(rows.bytes());
  const auto of_task = [&](int task, const auto& use) {
    for (int64_t at = task * batch_bytes; at < total; at += world.size() * batch_bytes) {
      use(at, static_cast<size_t>(std::min(batch_bytes, total - at)));
    }
  };
  std::string mine;
  of_task(world.rank(), [&](int64_t at, size_t size) { mine.append(bytes + at, size); });
  ASSIGN_OR_RETURN(const std::vector<std::string> all, world.AllGather(mine, deadline));
  for (int task = 0; task < world.size(); ++task) {
    size_t read = 0, expected = 0;
    of_task(task, [&](int64_t, size_t size) { expected += size; });
    if (all[task].size() != expected) {
      return absl::FailedPreconditionError(
          absl::StrCat(Describe(task, world.processes()[task]), " evaluates other data, or another model"));
    }
    of_task(task, [&](int64_t at, size_t size) {
      std::memcpy(bytes + at, all[task].data() + read, size);
      read += size;
    });
  }
  return absl::OkStatus();
}

}  // namespace

ModelOutputs::ModelOutputs(OpScope scope, absl::Span<const data::Field> fields, const Model& model)
    : batch_(scope, fields) {
  if (!scope.status().ok()) return;
  const absl::StatusOr<Output> built = model(scope, batch_);
  if (!built.ok()) scope.Fail(built.status());
  if (built.ok()) output_ = *built;
}

std::vector<PlannedStep> EvaluationSteps(const models::Batch& batch, const std::vector<Output>& outputs,
                                         int64_t examples, int64_t batch_size) {
  std::vector<PlannedStep> steps;
  if (examples >= batch_size) {
    steps.push_back({.name = "evaluation", .feeds = batch.FeedSpecs(batch_size), .fetches = outputs});
  }
  if (const int64_t last = examples % batch_size; last > 0) {
    steps.push_back({.name = "evaluation of the last batch", .feeds = batch.FeedSpecs(last), .fetches = outputs});
  }
  return steps;
}

absl::StatusOr<Tensor> ModelOutputs::Run(Session& session, const data::Dataset& dataset, int64_t batch_size,
                                         World* world, absl::Duration task_timeout) const {
  Tensor all = Tensor::Zeros(DType::kFloat32, output_.shape().Remove(0).Insert(0, dataset.size()));
  const int64_t row_bytes = static_cast<int64_t>(all.bytes()) / std::max<int64_t>(dataset.size(), 1);
  RETURN_IF_ERROR(ForDealtBatches(dataset, {}, batch_size, world, [&](const data::Batch& batch) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run(batch_.Feeds(batch.towers()[0]), {output_}));
    std::memcpy(static_cast<char*>(all.raw()) + batch.position().batch * batch_size * row_bytes, values[0].raw(),
                values[0].bytes());
    return absl::OkStatus();
  }));
  if (world != nullptr && world->size() > 1)
    RETURN_IF_ERROR(GatherRows(*world, SteadyNow() + task_timeout, batch_size * row_bytes, all));
  return all;
}

}  // namespace belfry::trainers
