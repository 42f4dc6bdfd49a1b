// Broadcasting of two operands by NumPy's rules, planned once per kernel.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/base/shape.h"

namespace belfry::ops {

// The batch extents of a matrix operand, all but the last two, which matrix products broadcast.
inline Shape BatchOf(const Shape& shape) { return Shape(shape.dims().subspan(0, shape.rank() - 2)); }

// The result as `rows` runs of `inner` consecutive elements. Within a run an operand advances by stride 1, or 0 if it
// is stretched. Adjacent axes that broadcast alike are merged, so operands of equal shapes form a single run.
struct BroadcastPlan {
  static constexpr int kMaxLoops = 8;
  struct Loop {
    int64_t extent = 1, stride_a = 0, stride_b = 0;
  };

  int64_t rows = 1, inner = 1;
  int64_t stride_a = 1, stride_b = 1;  // within a run: 0 or 1
  int loops = 0;                       // number of outer loops, listed outermost first
  std::array<Loop, kMaxLoops> loop;

  // Calls body(row, offset_a, offset_b) for rows [begin, end), in order.
  template <class Body>
  void ForRows(int64_t begin, int64_t end, Body&& body) const {
    std::array<int64_t, kMaxLoops> at{};
    int64_t a = 0, b = 0, rest = begin;
    for (int l = loops; l-- > 0;) {
      at[l] = rest % loop[l].extent;
      rest /= loop[l].extent;
      a += at[l] * loop[l].stride_a;
      b += at[l] * loop[l].stride_b;
    }
    for (int64_t row = begin; row < end; ++row) {
      body(row, a, b);
      for (int l = loops; l-- > 0;) {
        a += loop[l].stride_a;
        b += loop[l].stride_b;
        if (++at[l] < loop[l].extent) break;
        a -= loop[l].extent * loop[l].stride_a;
        b -= loop[l].extent * loop[l].stride_b;
        at[l] = 0;
      }
    }
  }
};

// REQUIRES: both shapes are known and broadcast. Unimplemented if more than kMaxLoops + 1 groups of axes remain.
absl::StatusOr<BroadcastPlan> PlanBroadcast(const Shape& a, const Shape& b);

}  // namespace belfry::ops
