// The definition of random ops, and drawing in their CPU kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/philox.h"
#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"
#include "ops/random.h"
#include "ops/random/draw_plan.h"

namespace belfry::ops {

// Maximum number of elements per call in ForEachDraw.
inline constexpr int kDrawChunk = 256;

// Calls draw(first, count, high, low) for ranges [first, first + count) that cover the tensor, with one word of each
// sequence per element; `low` is null unless `wide`. Large tensors use several threads. Never allocates.
template <bool wide, class Draw>
void ForEachDraw(const DrawPlan& plan, DrawOrigin origin, double cost, const Draw& draw) {
  const int64_t skip = origin.element % 4, n = plan.elements();
  const int64_t chunks = (skip + n + kDrawChunk - 1) / kDrawChunk;
  if (n == 0) return;
  ParallelFor(chunks, cost * kDrawChunk, [&](int64_t chunk_begin, int64_t chunk_end) {
    uint32_t high[kDrawChunk], low[wide ? kDrawChunk : 1];
    for (int64_t chunk = chunk_begin; chunk < chunk_end; ++chunk) {
      const int64_t begin = chunk * kDrawChunk;  // relative to the block of the first element
      const int64_t end = std::min(begin + kDrawChunk, skip + n);
      const auto block = static_cast<uint64_t>((origin.element - skip + begin) / 4);
      const int64_t blocks = (end - begin + 3) / 4;
      PhiloxBlocks(plan.key(), origin.step, block, blocks, high);
      if constexpr (wide) PhiloxBlocks(plan.key(), origin.step | kLowWords, block, blocks, low);
      const int64_t first = std::max(begin, skip);
      const int64_t at = first - begin;
      draw(first - skip, static_cast<int>(end - first), high + at, wide ? low + at : nullptr);
    }
  });
}

// The definition shared by random ops: counters are the only inputs, and the shape is an attribute.
OpDef RandomOpDef(absl::string_view name, absl::Span<const DType> types, std::vector<AttrDef> attrs,
                  std::vector<KernelDef> kernels);

// Registers such an op, with a role if it has one, and its sibling RandomToName(op.name), whose shape is that of input
// 0, a carrier (ops/copy/extents_impl.h).
void AddRandomOps(OpRegistry& registry, OpDef op, OpRole role = OpRole::kNone);

// Adds a node of the one or the other; completes `attrs` with those that RandomOpDef declares.
Output AddRandom(const Scope& scope, absl::string_view op, const Extents& extents, const RandomOptions& options,
                 Attrs attrs);

}  // namespace belfry::ops
