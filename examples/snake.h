// An op of one's own: Snake, an activation for functions that repeat (Ziyin, Hartwig and Ueda, "Neural networks fail to
// learn periodic functions and how to fix it", 2020).
#pragma once

#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"

// x + sin(frequency x)^2 / frequency, element by element; float32 or float64. REQUIRES: the scope's graph was made with
// a registry that RegisterSnake was called for; frequency > 0.
belfry::Output Snake(belfry::OpScope scope, belfry::Output x, double frequency = 1);

void RegisterSnake(belfry::OpRegistry& registry);
