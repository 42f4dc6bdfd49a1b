// Summaries of a training run for TensorBoard: those of TensorFlow's CIFAR-10 trainer.
#pragma once

#include <vector>

#include "framework/graph/scope.h"
#include "models/towers/replicate_towers.h"

namespace belfry::models {

struct SummaryOptions {
  bool activations = true;
  bool gradients = true;
  bool variables = true;
  // Activations of every tower instead of only the first; moves that many times more bytes off the devices.
  bool all_towers = false;
};

// Adds a histogram of x, "<x's node>/activations", and the fraction of its elements that are 0, "<x's node>/sparsity",
// on the device of x.
void ActivationSummaries(OpScope scope, Output x);

// Adds to kSummaries: ActivationSummaries of kActivations; all towers' kLosses, each under its node's name; the step's
// loss as "total_loss", its "learning_rate" and, if it has one, "loss_scale"; histograms of each trained variable,
// under its name, and of its averaged gradient (the rows of a sparse one), "<variable>/gradients". Summaries of the
// towers share one tag (ops::ReadSummaries). Returns the outputs to fetch for ops::ReadSummaries: these and all others
// that kSummaries has in this scope. Empty after an error, which sticks to the graph.
std::vector<Output> AddTrainSummaries(OpScope scope, const TrainStep& step, const SummaryOptions& options = {});

}  // namespace belfry::models
