// The CPU kernels of attention. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "framework/graph/kernel.h"

namespace belfry::ops::attention {

// Ops Attention and, if `packed`, SelfAttention: q, k, v [, mask] or qkv [, mask] give y and log_sum_exp.
template <class T>
absl::StatusOr<Kernel> MakeForward(const KernelSpec& spec, bool packed);  // forward.cc

// Their gradients: the same inputs before the mask, then y, log_sum_exp, dy [, mask], give dq, dk and dv, or dqkv.
template <class T>
absl::StatusOr<Kernel> MakeBackward(const KernelSpec& spec, bool packed);  // backward.cc

}  // namespace belfry::ops::attention
