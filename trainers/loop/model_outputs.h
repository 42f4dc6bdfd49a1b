// The outputs of a model for all examples of a dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/data/dataset.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "models/towers/batch.h"
#include "trainers/loop/planned_step.h"

namespace belfry {
class World;
}  // namespace belfry

namespace belfry::trainers {

// The steps of one pass over `examples`, in batches of `batch_size`, that fetch these outputs: with a full batch, and
// with the last one if that is smaller.
std::vector<PlannedStep> EvaluationSteps(const models::Batch& batch, const std::vector<Output>& outputs,
                                         int64_t examples, int64_t batch_size);

// The part of a graph that computes a model in evaluation mode, on one device, and the runs of it.
class ModelOutputs {
 public:
  // Returns the model's output [N, ...], float32, for a batch of N examples.
  using Model = std::function<absl::StatusOr<Output>(const Scope& scope, const models::Batch& batch)>;

  // Adds the nodes for examples of these fields. The scope selects the variables, as that of an Evaluator. Errors are
  // kept by the graph.
  ModelOutputs(OpScope scope, absl::Span<const data::Field> fields, const Model& model);

  // The steps that Run runs for a dataset of `examples`.
  std::vector<PlannedStep> Steps(int64_t examples, int64_t batch_size) const {
    return EvaluationSteps(batch_, {output_}, examples, batch_size);
  }

  // The outputs [examples, ...] of the whole dataset, in its order, computed in batches of `batch_size`. The processes
  // of `world`, if it is not null, deal the batches among them, and all get all outputs. Errors: also those of
  // World::AllGather.
  absl::StatusOr<Tensor> Run(Session& session, const data::Dataset& dataset, int64_t batch_size, World* world = nullptr,
                             absl::Duration task_timeout = absl::Minutes(10)) const;

  const models::Batch& batch() const { return batch_; }
  Output output() const { return output_; }

 private:
  models::Batch batch_;
  Output output_;
};

}  // namespace belfry::trainers
