#include "trainers/cifar_recipes.h"

#include <vector>

namespace belfry::trainers {

// A rate r for the sum over a batch of B is r B for the mean. airbench94_compiled, with s = 1 + 1 / (1 - 0.85): weights
// 11.5 / s = 1.5 for the mean of 1024, offsets of batch norms 64 times that, decay 0.0153 / s a step; lookahead
// ends with a share of 1 - 0.95^5 for the weights. Its 476th step is undone by its last lookahead, so 475 are the same.
absl::Span<const Recipe> CifarRecipes() {
  static const auto& recipes = *new std::vector<Recipe>{{"speedrun",
                                                         {{"model", "speedrun_net"},
                                                          {"batch_size", "1024", "batch_size_per_tower"},
                                                          {"epochs", "9.9", "steps"},
                                                          {"drop_remainder", "true"},
                                                          {"optimizer", "nesterov"},
                                                          {"momentum", "0.85"},
                                                          {"learning_rate", "1.5"},
                                                          {"norm_learning_rate", "96"},
                                                          {"weight_decay", "0.001995652"},
                                                          {"schedule", "triangle"},
                                                          {"lookahead", "5"},
                                                          {"lookahead_end", "0.2262191"},
                                                          {"label_smoothing", "0.2"},
                                                          {"evaluate_views", "6"}}},
                                                        {"record",
                                                         {{"model", "record_net"},
                                                          {"batch_size", "2000", "batch_size_per_tower"},
                                                          {"epochs", "8", "steps"},
                                                          {"drop_remainder", "true"},
                                                          {"optimizer", "muon"},
                                                          {"momentum", "0.6"},
                                                          {"learning_rate", "0.24"},
                                                          {"norm_learning_rate", "106"},
                                                          {"head_learning_rate", "1340"},
                                                          {"weight_decay", "0.004"},
                                                          {"schedule", "linear"},
                                                          {"label_smoothing", "0.2"},
                                                          {"evaluate_views", "6"}}},
                                                        {"resnet",
                                                         {{"model", "resnet20"},
                                                          {"batch_size", "128", "batch_size_per_tower"},
                                                          {"steps", "64000", "epochs"},
                                                          {"optimizer", "momentum"},
                                                          {"momentum", "0.9"},
                                                          {"learning_rate", "0.1"},
                                                          {"schedule", "step_decay"},
                                                          {"per_pixel_mean", "true"},
                                                          {"augment_on", "host"}}}};
  return recipes;
}

}  // namespace belfry::trainers
