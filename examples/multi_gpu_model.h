// Towers with collections, written out: what models::ReplicateTowers does in one call. towers_by_hand.cc trains them.
#pragma once

#include "belfry.h"

// Collections beside belfry::kTrainModels ("train_model"), which holds a Tower for each training model.
inline constexpr char kTestModels[] = "test_model";
inline constexpr char kLossCollection[] = "loss";         // of each model
inline constexpr char kPredict[] = "predict";             // its class probabilities, [N, classes]
inline constexpr char kMergeSummary[] = "merge_summary";  // its loss and accuracy

// Points of a plane, float32 [N, 2], in three classes, int32 [N]: the arms of a spiral, which no straight line
// separates.
struct Points {
  belfry::Tensor features, labels;
  int64_t size() const { return labels.elements(); }
  Points Rows(int64_t begin, int64_t count) const;
};
Points MakeSpiral(int64_t count, uint64_t seed);

// A classifier of points in the name scope and on the device of `scope`: placeholders, a network, a loss. It knows
// nothing of other devices and has no optimizer. It is added to `collection` and to the three others.
belfry::Tower BuildModel(const belfry::Scope& scope, int index, absl::string_view collection);

// One training model per device, "<scope>/tower_<i>", with one copy of the variables on /cpu:0. Returns the train_op,
// or null after an error, which the graph keeps.
const belfry::Node* MultiGpuModel(const belfry::Scope& scope, const std::vector<belfry::DeviceName>& devices);

struct EpochResult {
  double loss = 0, accuracy = 0;  // means over all batches of all models
};
// Runs `data` once: each model of `scope` is fed its own next batch at each step, and a remainder is skipped. Training
// runs train_op too.
absl::StatusOr<EpochResult> RunEpoch(belfry::Session& session, const Points& data, absl::string_view scope,
                                     const belfry::Node* train_op, bool is_training, int64_t batch_size);
