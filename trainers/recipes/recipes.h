// The recipes of cifar10, from the files *.flags of this folder.
#pragma once

#include "absl/types/span.h"
#include "trainers/flags/flags.h"

namespace belfry::trainers {

absl::Span<const Recipe> CifarRecipes();

}  // namespace belfry::trainers
