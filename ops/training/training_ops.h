// Registration of the training ops. Internal to ops/training/.
#pragma once

#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterDescentOps(OpRegistry& registry);    // gradient descent, momentum
void RegisterAdaptiveOps(OpRegistry& registry);   // RMSProp, Adagrad
void RegisterAdamOps(OpRegistry& registry);       // Adam, AdamW
void RegisterLarsOps(OpRegistry& registry);       // LARS
void RegisterAverageOps(OpRegistry& registry);    // moving averages
void RegisterClipOps(OpRegistry& registry);       // norms and clipping
void RegisterLossScaleOps(OpRegistry& registry);  // loss scales
void RegisterScheduleOps(OpRegistry& registry);   // learning rates

}  // namespace belfry::ops
