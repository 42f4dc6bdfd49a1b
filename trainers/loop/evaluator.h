// Evaluation of a classifier on a dataset.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/data/augment.h"
#include "framework/data/dataset.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "models/batch.h"
#include "models/replicate_towers.h"
#include "trainers/loop/evaluation.h"

namespace belfry {
class World;
}  // namespace belfry

namespace belfry::trainers {

// A classifier's results on a dataset. An example with a logit that is not finite counts as wrong.
struct Classification {
  int64_t examples = 0;
  double accuracy = 0;  // share of examples whose label has the largest logit; the first of equal ones counts
  double top_5 = 0;     // share with fewer than five logits above the label's
  double loss = 0;      // mean cross-entropy
  int64_t classes = 0;
  std::vector<int64_t> confusion;  // [classes, classes]: examples by true class (row) and predicted class

  // accuracy, which decides; top_5, loss.
  operator Evaluation() const;  // NOLINT(google-explicit-constructor): TrainerOptions::evaluate returns either
};

// The confusion matrix as a table, with the accuracy of each class; for more than 20 classes, the pairs that are
// confused most often. `names` are those of the classes, or empty.
std::string ConfusionTable(const Classification& results, const std::vector<std::string>& names = {});

// Builds the model's logits, [N, classes], in evaluation mode: without dropout, and with moving averages instead of
// batch statistics.
using LogitsFunction = std::function<absl::StatusOr<Output>(const Scope& scope, Output images)>;

// The part of a graph that counts correct predictions, on one device.
class Evaluator {
 public:
  // Adds the nodes. The scope selects the variables: Scope(graph).Replica(0).ReuseVariables(Reuse::kAlways) those of
  // tower 0. Errors are kept by the graph.
  Evaluator(OpScope scope, const models::InputSpec& input, const LogitsFunction& logits);

  // The feeds of the step that Run runs for a batch of `batch_size` examples.
  std::vector<FeedSpec> FeedsOf(int64_t batch_size) const;
  std::vector<Output> fetches() const { return {loss_, right_, right_of_5_, predicted_}; }

  // Evaluates the whole dataset in batches of `batch_size`, the last of which may be smaller. Runs the target `before`
  // first, unless it is null. The processes of `world`, if it is not null, deal the batches among them; all get the
  // same result, to the last bit that of one process. Errors: also those of World::AllGather.
  absl::StatusOr<Classification> Run(Session& session, const data::Dataset& dataset, const data::ImagePolicy& images,
                                     int64_t batch_size, const Node* before = nullptr, World* world = nullptr,
                                     absl::Duration task_timeout = absl::Minutes(10)) const;

 private:
  const Shape input_;  // of one example
  models::Batch batch_;
  Output loss_, right_, right_of_5_;  // sums over the batch, float32 scalars
  Output predicted_;                  // [N] int32
  int64_t classes_ = 0;
};

}  // namespace belfry::trainers
