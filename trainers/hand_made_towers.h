// Towers with collections, written out: what models::ReplicateTowers does for you, one step after the other. Read it
// together with towers_by_hand.cc, which runs it.
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

// Points of a plane in three classes, which lie on the arms of a spiral: no straight lines part them.
struct Points {
  static constexpr int kFeatures = 2;
  static constexpr int kClasses = 3;
  Tensor features;  // float32 [N, kFeatures]
  Tensor labels;    // int32 [N]
  int64_t size() const { return labels.elements(); }
};
// `count` points in random order; the same for the same seed.
Points MakeSpiral(int64_t count, uint64_t seed);
// Rows [begin, begin + count).
Points Rows(const Points& points, int64_t begin, int64_t count);

// A classifier of Points in the name scope of `scope`, on its device: placeholders, a hidden layer, logits, loss. It
// knows nothing of other devices and builds no optimizer. Adds itself to `collection` and to the three above.
Tower BuildModel(const Scope& scope, int index, absl::string_view collection);

// One training model per device, "<scope>/tower_<i>", with one copy of the variables on /cpu:0. Returns the train_op,
// or null after an error, which sticks to the graph.
const Node* MultiGpuModel(const Scope& scope, const std::vector<DeviceName>& devices, double learning_rate);

struct EpochResult {
  double loss = 0;      // the mean over all batches of all models
  double accuracy = 0;  // likewise
};
// Goes through `data` once. Each step, every model of `scope` is fed the next batch of its own; what is left at the end
// and does not fill the step is left out. Fetches what models of `scope` have in the collections, and runs train_op if
// is_training.
absl::StatusOr<EpochResult> RunEpoch(Session& session, const Points& data, absl::string_view scope,
                                     const Node* train_op, bool is_training, int64_t batch_size);

}  // namespace belfry::trainers
