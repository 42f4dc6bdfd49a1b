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
#include "models/towers/batch.h"
#include "trainers/callbacks/evaluation.h"
#include "trainers/loop/planned_step.h"

namespace belfry {
class World;
}  // namespace belfry

namespace belfry::trainers {

// A classifier's results on a dataset. A label whose logits are not all finite counts as wrong. An example has one
// label or, as a window of text, several.
struct Classification {
  int64_t labels = 0;
  double accuracy = 0;  // share of labels that have the largest logit; the first of equal ones counts
  double top_5 = 0;     // share of labels with fewer than five logits above theirs
  double loss = 0;      // mean cross-entropy
  int64_t classes = 0;
  // [classes, classes]: labels by true class (row) and predicted class; empty above kMaxConfusion classes.
  std::vector<int64_t> confusion;
  static constexpr int64_t kMaxConfusion = 1000;

  // accuracy, which decides; top_5, loss.
  operator Evaluation() const;  // NOLINT(google-explicit-constructor): TrainerOptions::evaluate returns either
};

// The confusion matrix as a table of at most `columns` characters a line, with the accuracy of each class; where that
// is too narrow, or for more than 20 classes, the pairs that are confused most often. `names` are the classes',
// or empty; a class without a name is left out if no label is of it and none was taken for it.
std::string ConfusionTable(const Classification& results, const std::vector<std::string>& names = {}, int columns = 80);

// Builds the model's logits, [N, classes] or, for labels [N, ...], [N, ..., classes], in evaluation mode: without
// dropout, and with moving averages instead of batch statistics.
using LogitsFunction = std::function<absl::StatusOr<Output>(const Scope& scope, const models::Batch& batch)>;

// The part of a graph that counts correct predictions, on one device.
class Evaluator {
 public:
  // Adds the nodes. The scope selects the variables: Scope(graph).Replica(0).ReuseVariables(Reuse::kAlways) selects
  // tower 0's. `label`: the field, int32 or int64, with the classes. The graph keeps errors, such as fields with
  // unknown extents.
  Evaluator(OpScope scope, absl::Span<const data::Field> fields, const LogitsFunction& logits,
            const std::string& label = "label");

  // The steps that Run runs for a dataset of `examples`: with a full batch, and with the last one if that is smaller.
  std::vector<PlannedStep> Steps(int64_t examples, int64_t batch_size) const;
  // The feeds of the step that Run runs for a batch of `batch_size` examples.
  std::vector<FeedSpec> FeedsOf(int64_t batch_size) const { return batch_.FeedSpecs(batch_size); }
  std::vector<Output> fetches() const { return {loss_, right_, right_of_5_, predicted_}; }
  const models::Batch& batch() const { return batch_; }
  Output logits() const { return logits_; }

  // Evaluates the whole dataset, with its images through the policies, in batches of `batch_size`; the last may be
  // smaller. The processes of `world`, if it is not null,
  // deal the batches among them; all get the same result, bit by bit as in one process. Errors: also those of
  // World::AllGather.
  absl::StatusOr<Classification> Run(Session& session, const data::Dataset& dataset, const data::ImagePolicies& images,
                                     int64_t batch_size, World* world = nullptr,
                                     absl::Duration task_timeout = absl::Minutes(10)) const;

 private:
  models::Batch batch_;
  size_t label_ = 0;  // index of the field
  int64_t labels_per_example_ = 1;
  Output logits_;
  Output loss_, right_, right_of_5_;  // sums over the batch, float32 scalars
  Output predicted_;                  // of each label, int32
  int64_t classes_ = 0;
};

}  // namespace belfry::trainers
