// The published trainings that cifar10 knows.
#pragma once

#include "absl/types/span.h"
#include "trainers/flags/recipes.h"

namespace belfry::trainers {

// speedrun: airbench94_compiled (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024), with its rates for a
// sum of losses as rates for their mean. record: airbench94_muon (Jordan, 2024), which has Muon. resnet: He et al.,
// "Deep residual learning for image recognition" (2015), §4.2.
absl::Span<const Recipe> CifarRecipes();

}  // namespace belfry::trainers
