// Normalisation layers without running statistics. The rules of layers.h hold; the layers compute the same in training
// and in evaluation.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::models {

// ops::LayerNorm over the last axis of x [.., C] with known C, in the shape of x. Variables: gamma [C], which starts at
// 1, and beta [C], which starts at 0.
Output LayerNorm(OpScope scope, absl::string_view name, Output x, double epsilon = 1e-5);

// ops::RmsNorm over the last axis of x [.., C] with known C, in the shape of x. Variable: gamma [C], which starts at 1.
Output RmsNorm(OpScope scope, absl::string_view name, Output x, double epsilon = 1e-6);

// ops::GroupNorm of x [N, .., C] with known C, in the shape of x; `groups` must divide C. Variables: as LayerNorm.
Output GroupNorm(OpScope scope, absl::string_view name, Output x, int64_t groups, double epsilon = 1e-5);

}  // namespace belfry::models
