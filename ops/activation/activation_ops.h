// Registration of the activation ops, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterActivations(OpRegistry& registry);        // activations.cc
void RegisterSmoothActivations(OpRegistry& registry);  // smooth_activations.cc
void RegisterSoftmax(OpRegistry& registry);            // softmax.cc
void RegisterBias(OpRegistry& registry);               // bias.cc
void RegisterDropout(OpRegistry& registry);            // dropout.cc

}  // namespace belfry::ops
