// Registration of the losses, by source file. Internal.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterCrossEntropy(OpRegistry& registry);         // cross_entropy.cc
void RegisterSigmoidCrossEntropy(OpRegistry& registry);  // sigmoid_cross_entropy.cc
void RegisterL2Loss(OpRegistry& registry);               // l2_loss.cc

}  // namespace belfry::ops
