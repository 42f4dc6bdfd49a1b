// A rewrite of one's own: Sin(Scale(x)), which the gradient of Snake is made of, becomes one op.
#pragma once

#include "framework/graph/op_def.h"

// Adds the op ScaledSine, sin(factor x), element by element, and the rewrite "scaled_sine", which puts it in the place
// of a Scale that only a Sin reads. Graphs made with the registry compile to it by themselves; no model names it.
void RegisterScaledSine(belfry::OpRegistry& registry);
