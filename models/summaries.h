// What a training run shows of itself in TensorBoard: the summaries of TensorFlow's CIFAR-10 trainer.
#pragma once

#include <vector>

#include "framework/graph/scope.h"
#include "models/replicate_towers.h"

namespace belfry::models {

struct SummaryOptions {
  bool activations = true;
  bool gradients = true;
  bool variables = true;
  // Activations of every tower, not of the first alone: as many times the bytes that leave the devices.
  bool all_towers = false;
};

// A histogram of x, "<x's node>/activations", and the share of its elements that are 0, "<x's node>/sparsity". The
// nodes go with x.
void ActivationSummaries(OpScope scope, Output x);

// Adds to kSummaries: the ActivationSummaries of kActivations, each of kLosses of every tower under its node's name,
// the step's loss as "total_loss", its "learning_rate" and "loss_scale", if it has one, and histograms of each trained
// variable, under its name, and of its gradient after averaging, "<variable>/gradients". Towers have one tag
// (ops::ReadSummaries). Returns the outputs that the step fetches for ops::ReadSummaries: these and whatever else the
// graph has in kSummaries; empty after an error, which sticks to the graph.
std::vector<Output> AddTrainSummaries(OpScope scope, const TrainStep& step, const SummaryOptions& options = {});

}  // namespace belfry::models
