// How good a classifier is on a dataset.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/augment.h"
#include "framework/data/dataset.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "models/batch.h"
#include "models/replicate_towers.h"

namespace belfry::trainers {

// An example with a logit that is not finite counts as wrong.
struct Evaluation {
  int64_t examples = 0;
  double accuracy = 0;  // share of examples whose label has the largest logit, the first of equal ones
  double top_5 = 0;     // share with fewer than five logits above the label's
  double loss = 0;      // mean cross-entropy
  int64_t classes = 0;
  std::vector<int64_t> confusion;  // [classes, classes]: how many examples of a class (row) were taken for which
};

// The confusion as a table with the share of each class that is right; of more than 20 classes, the pairs that are
// confused most. `names`: of the classes, or empty.
std::string ConfusionTable(const Evaluation& evaluation, const std::vector<std::string>& names = {});

// Builds the model's logits, [N, classes], as for evaluation: no dropout, moving averages instead of a batch's
// statistics.
using LogitsFunction = std::function<absl::StatusOr<Output>(const Scope& scope, Output images)>;

// The part of a graph that counts right answers, on one device.
class Evaluator {
 public:
  // Adds the nodes. The scope says whose variables are evaluated:
  // Scope(graph).Replica(0).ReuseVariables(Reuse::kAlways) those of tower 0. Errors stick to the graph.
  Evaluator(OpScope scope, const models::InputSpec& input, const LogitsFunction& logits);

  // What Run runs for a batch of so many examples.
  std::vector<FeedSpec> FeedsOf(int64_t batch_size) const;
  std::vector<Output> fetches() const { return {loss_, right_, right_of_5_, predicted_}; }

  // Runs the whole dataset, in batches of `batch_size` with a smaller last one, after `before` (null: nothing).
  absl::StatusOr<Evaluation> Run(Session& session, const data::Dataset& dataset, const data::ImagePolicy& images,
                                 int64_t batch_size, const Node* before = nullptr) const;

 private:
  const Shape input_;  // of one example
  models::Batch batch_;
  Output loss_, right_, right_of_5_;  // sums over the batch, float32 scalars
  Output predicted_;                  // [N] int32
  int64_t classes_ = 0;
};

}  // namespace belfry::trainers
