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

// The order in which MeanRows adds up towers, that of a tree over all of them (TreeSum in
// framework/collective/local.cc): whether the sums that end with towers a < b are added to each other before tower c
// comes, because it is in no subtree that has both. With towers in ascending order fewer than kMaxWaitingSums sums
// wait.
inline constexpr int kMaxWaitingSums = 64;
constexpr bool AddsUpBefore(uint64_t a, uint64_t b, uint64_t c) {
  // True if the highest bit of b ^ c is not below that of a ^ b.
  const uint64_t low = a ^ b, high = b ^ c;
  return !(high < low && high < (high ^ low));
}

// The sums that wait in a series are the set bits of the number of towers before: sum k is of 2^k towers.
// The sums, as bits, that the value of tower `index` is added to, the lowest first: those into which a binary counter
// carries, and all for the last tower.
constexpr uint64_t SeriesMerges(uint64_t index, uint64_t series) {
  return index + 1 == series ? index : index & ~(index + 1);
}
// The number of the sum that this makes.
constexpr int64_t SeriesSum(uint64_t index, uint64_t series) {
  int64_t carry = 0;
  for (; index + 1 != series && index % 2 == 1; index /= 2) ++carry;
  return carry;
}

// In the CUDA module.
void AddAverageGpuKernels(KernelTable& table);     // average.cu
void AddClipGpuKernels(KernelTable& table);        // clip.cu
void AddDenseRowsGpuKernels(KernelTable& table);   // dense_rows.cu
void AddUpdateRuleGpuKernels(KernelTable& table);  // rules.cu: gradient descent, ..., AdamW
void AddIncrementGpuKernels(KernelTable& table);   // increment.cu
void AddLarsGpuKernels(KernelTable& table);        // lars.cu
void AddL2LossesGpuKernels(KernelTable& table);    // l2_losses.cu
void AddLossScaleGpuKernels(KernelTable& table);   // loss_scale.cu
void AddScheduleGpuKernels(KernelTable& table);    // schedule.cu
void AddSeriesGpuKernels(KernelTable& table);      // series.cu
void AddSumRowsGpuKernels(KernelTable& table);     // sum_rows.cu

}  // namespace belfry::ops
