// Registration of the training ops. Internal to ops/training/.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/rewrite.h"
#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterDescentOps(OpRegistry& registry);    // gradient descent, momentum
void RegisterAdaptiveOps(OpRegistry& registry);   // RMSProp, Adagrad
void RegisterAdamOps(OpRegistry& registry);       // Adam, AdamW
void RegisterLarsOps(OpRegistry& registry);       // LARS
void RegisterAverageOps(OpRegistry& registry);    // moving averages
void RegisterClipOps(OpRegistry& registry);       // norms and clipping
void RegisterIncrementOps(OpRegistry& registry);  // counters
void RegisterL2Losses(OpRegistry& registry);      // weight decay in a loss
void RegisterLossScaleOps(OpRegistry& registry);  // loss scales
void RegisterScheduleOps(OpRegistry& registry);   // learning rates
void RegisterSumRowsOps(OpRegistry& registry);    // sparse gradients
void RegisterSeriesOps(OpRegistry& registry);     // sums over towers in series
void RegisterDenseRowsOps(OpRegistry& registry);  // their dense form

// The rewrite "l2_losses" (rewrites/l2_losses.cc), for GPUs. Makes one L2Losses of the L2Loss terms of a sum, scaled or
// not, that nothing else reads: the weight decay of all variables of a model, in one launch.
absl::Status JoinL2Losses(Program& program, const RewriteContext& context);
// The rewrite "narrow_norms" (rewrites/narrow_norms.cc), for GPUs. GlobalNorm reads gradients before their conversion
// from 16 bits to float32, which can then be part of the update.
absl::Status NarrowNorms(Program& program, const RewriteContext& context);

// L2Losses, which only that rewrite adds: the sum of factors[i] / 2 times the squares of input i. These are its
// factors / 2, by input.
std::vector<double> L2Factors(const KernelSpec& spec);

// The rows that SumRows and MeanRows add up.
struct RowsShape {
  int64_t count = 0, width = 0;  // K, and the elements of a row
};
inline absl::StatusOr<RowsShape> RowsToSum(const KernelSpec& spec) {
  const Shape& rows = spec.inputs[0].shape;
  if (rows[0] < int64_t{1} << 31) return RowsShape{rows[0], rows.elements(1, rows.rank())};
  return absl::UnimplementedError("more than 2^31 - 1 rows");
}

// In the CUDA module.
void AddClipGpuKernels(KernelTable& table);        // clip.cu
void AddDenseRowsGpuKernels(KernelTable& table);   // dense_rows.cu
void AddUpdateRuleGpuKernels(KernelTable& table);  // rules.cu: of sparse gradients
void AddIncrementGpuKernels(KernelTable& table);   // increment.cu
void AddLarsGpuKernels(KernelTable& table);        // lars.cu
void AddL2LossesGpuKernels(KernelTable& table);    // l2_losses.cu
void AddLossScaleGpuKernels(KernelTable& table);   // loss_scale.cu
void AddScheduleGpuKernels(KernelTable& table);    // schedule.cu
void AddSeriesGpuKernels(KernelTable& table);      // series.cu
void AddSumRowsGpuKernels(KernelTable& table);     // sum_rows.cu

}  // namespace belfry::ops
