#include "ops/builtin_ops.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {

void RegisterTrainingOps(OpRegistry& registry) {
  RegisterDescentOps(registry);
  RegisterAdaptiveOps(registry);
  RegisterAdamOps(registry);
  RegisterLarsOps(registry);
  RegisterAverageOps(registry);
  RegisterClipOps(registry);
  RegisterLossScaleOps(registry);
  RegisterScheduleOps(registry);
  RegisterSumRowsOps(registry);
}

}  // namespace belfry::ops
