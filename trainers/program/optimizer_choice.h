// Optimizers by name, for programs whose users choose one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "optim/optimizer.h"

namespace belfry::trainers {

struct OptimizerChoice {
  std::string name = {};  // one of OptimizerNames()
  optim::Schedule learning_rate = 0.01;
  double momentum = -1;     // of "momentum", "nesterov", "lars" and "muon"; -1: 0.9, or 0.95 for the last
  double beta2 = 0.999;     // of "adam", "adamw" and "lamb"
  double weight_decay = 0;  // of weights
  int64_t lookahead = 0;    // LookaheadOptions::steps; 0: none
  optim::Schedule lookahead_alpha = 0.5;
  optim::VariableFilter hidden = {};  // the matrices that Muon updates; AdamW has the rest
};

// "descent", "momentum", "nesterov", "adam", "adamw", "lars", "lamb", "muon".
absl::Span<const absl::string_view> OptimizerNames();
// `optimizer` inside a Lookahead, or itself if there is none.
std::unique_ptr<optim::Optimizer> WithLookahead(std::unique_ptr<optim::Optimizer> optimizer,
                                                const OptimizerChoice& choice);
// InvalidArgument, with the names, for another one.
absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const OptimizerChoice& choice);

}  // namespace belfry::trainers
