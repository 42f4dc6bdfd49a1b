// Broadcasting in device code. Only for .cu files.
#pragma once

#include <cstdint>

#include "framework/device/cuda/launch.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/gpu/divider_impl.h"

namespace belfry::ops {

// A BroadcastPlan for device code, which locates the operands of result i.
struct GpuBroadcast {
  struct Loop {
    Divider extent;
    int64_t stride_a = 0, stride_b = 0;
  };
  Divider inner;
  int64_t stride_a = 1, stride_b = 1;
  int loops = 0;
  Loop loop[BroadcastPlan::kMaxLoops];

  explicit GpuBroadcast(const BroadcastPlan& plan)
      : inner(plan.inner, plan.rows * plan.inner), stride_a(plan.stride_a), stride_b(plan.stride_b), loops(plan.loops) {
    for (int l = 0; l < loops; ++l) {
      const BroadcastPlan::Loop& from = plan.loop[l];
      loop[l] = {Divider(from.extent, plan.rows), from.stride_a, from.stride_b};
    }
  }

  // Index is uint32_t if CountsIn32Bits(number of elements), otherwise int64_t.
  template <class Index>
  BELFRY_GPU void Find(Index i, int64_t& a, int64_t& b) const {
    const auto column = static_cast<int64_t>(inner.Split(i));
    a = column * stride_a;
    b = column * stride_b;
    for (int l = loops; l-- > 0;) {
      const auto at = static_cast<int64_t>(l == 0 ? i : loop[l].extent.Split(i));
      a += at * loop[l].stride_a;
      b += at * loop[l].stride_b;
    }
  }
};

}  // namespace belfry::ops
