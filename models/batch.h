// What a model is built on.
#pragma once

#include "framework/graph/node.h"

namespace belfry::models {

// One tower's examples. Extents of the batch axis are unknown while the graph is built.
struct Batch {
  Output images;  // float32 [N, H, W, C], or any [N, ...] of inputs
  Output labels;  // int32 [N]: classes; or float32 [N]: numbers to predict
};

}  // namespace belfry::models
