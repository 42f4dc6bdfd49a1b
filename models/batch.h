// The input of a model function.
#pragma once

#include "framework/graph/node.h"

namespace belfry::models {

// One tower's examples. The batch extent N is unknown while the graph is built.
struct Batch {
  Output images;  // float32 [N, H, W, C], or any [N, ...] of inputs
  Output labels;  // int32 [N]: classes; or float32 [N]: numbers to predict
};

}  // namespace belfry::models
