// Towers with collections, written out step by step: the work that models::ReplicateTowers does for you. See
// towers_by_hand.cc, which runs it.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/runtime/session.h"

namespace belfry::trainers {

// Collections beside kTrainModels ("train_model"), which holds a Tower for each training model.
inline constexpr char kTestModels[] = "test_model";
inline constexpr char kLoss[] = "loss";                   // of each model
inline constexpr char kPredict[] = "predict";             // its class probabilities, [N, classes]
inline constexpr char kMergeSummary[] = "merge_summary";  // its loss and accuracy (ops::MergeSummary)

// Points of a plane in three classes, the arms of a spiral, which straight lines cannot separate.
struct Points {
  static constexpr int kFeatures = 2;
  static constexpr int kClasses = 3;
  Tensor features;  // float32 [N, kFeatures]
  Tensor labels;    // int32 [N]
  int64_t size() const { return labels.elements(); }
};
// `count` points in random order, determined by the seed.
Points MakeSpiral(int64_t count, uint64_t seed);
// Rows [begin, begin + count).
Points Rows(const Points& points, int64_t begin, int64_t count);

// A classifier of Points in the name scope and on the device of `scope`: placeholders, a hidden layer, logits, loss. It
// knows nothing of other devices and has no optimizer. It is added to `collection` and to the three above.
Tower BuildModel(const Scope& scope, int index, absl::string_view collection);

// One training model per device, "<scope>/tower_<i>", with one copy of the variables on /cpu:0. Returns the train_op,
// or null after an error, which the graph keeps.
const Node* MultiGpuModel(const Scope& scope, const std::vector<DeviceName>& devices, double learning_rate);

struct EpochResult {
  double loss = 0;      // the mean over all batches of all models
  double accuracy = 0;  // the mean over all batches of all models
};
// Runs `data` once. At each step, every model of `scope` is fed its own next batch; a remainder that does not fill a
// step is skipped. Fetches the losses and summaries of the models of `scope` from the collections, and runs train_op if
// is_training. InvalidArgument if `data` does not fill one step.
absl::StatusOr<EpochResult> RunEpoch(Session& session, const Points& data, absl::string_view scope,
                                     const Node* train_op, bool is_training, int64_t batch_size);

}  // namespace belfry::trainers
