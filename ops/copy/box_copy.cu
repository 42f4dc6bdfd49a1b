#include "ops/copy/box_copy.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/copy/copy_ops.h"
#include "ops/gpu/divider_impl.h"
#include "ops/gpu/raw_gpu_impl.h"

namespace belfry::ops {
namespace {

// A BoxCopy in a form for device code.
struct GpuBox {
  static constexpr int kMaxAxes = 16;
  struct Axis {
    Divider extent, step;
    int64_t from = 0, begin = 0, count = 1;
  };
  int axes = 0;
  Axis axis[kMaxAxes];
  int64_t offset = 0;

  // Returns whether element i of the result lies in the box, and if so the source element it copies.
  template <bool covers, class Index>
  BELFRY_GPU bool Find(Index i, int64_t& from) const {
    from = offset;
    for (int a = axes; a-- > 0;) {
      const Axis& at = axis[a];
      auto along = static_cast<int64_t>(a == 0 ? i : at.extent.Split(i));
      if constexpr (!covers) {
        along -= at.begin;
        if (along < 0) return false;
        if (at.step.divisor() != 1) {
          auto steps = static_cast<Index>(along);
          if (at.step.Split(steps) != 0) return false;
          along = static_cast<int64_t>(steps);
        }
        if (along >= at.count) return false;
      }
      from += along * at.from;
    }
    return true;
  }
};

template <bool covers, int bytes, class Index>
absl::Status CopyBox(Stream& stream, int64_t n, const GpuBox& box, GpuUnit<bytes> fill, const GpuUnit<bytes>* from,
                     GpuUnit<bytes>* to) {
  return gpu::ForEach(stream, n, [=] BELFRY_GPU(int64_t i) {
    int64_t at;
    if (box.Find<covers>(static_cast<Index>(i), at)) {
      to[i] = from[at];
    } else {
      to[i] = fill;
    }
  });
}

// Doubles the unit of the copy while every offset and extent stays even, so that each thread moves more bytes. Returns
// the size of a unit in bytes.
size_t Widen(BoxCopy& box, size_t size) {
  while (size < kWidestUnit && !box.axes.empty()) {
    const BoxAxis& last = box.axes.back();
    bool even = last.from == 1 && last.step == 1 && (last.extent | last.begin | last.count | box.from_offset) % 2 == 0;
    for (size_t i = 0; i + 1 < box.axes.size(); ++i) even = even && box.axes[i].from % 2 == 0;
    if (!even) break;
    for (size_t i = 0; i + 1 < box.axes.size(); ++i) box.axes[i].from /= 2;
    box.axes.back() = {last.extent / 2, 1, last.begin / 2, 1, last.count / 2};
    box.from_offset /= 2;
    size *= 2;
  }
  return size;
}

template <bool covers, int bytes, class Index>
Kernel BoxKernel(int64_t n, const GpuBox& box, uint64_t fill) {
  return Kernel{[n, box, fill = UnitOf<bytes>(fill)](const KernelContext& context) {
    return CopyBox<covers, bytes, Index>(*context.stream, n, box, fill, context.input<GpuUnit<bytes>>(0),
                                         context.output<GpuUnit<bytes>>(0));
  }};
}

template <int bytes>
Kernel BoxKernelOf(int64_t n, const GpuBox& box, bool covers, uint64_t fill) {
  if (CountsIn32Bits(n)) {
    return covers ? BoxKernel<true, bytes, uint32_t>(n, box, fill) : BoxKernel<false, bytes, uint32_t>(n, box, fill);
  }
  return covers ? BoxKernel<true, bytes, int64_t>(n, box, fill) : BoxKernel<false, bytes, int64_t>(n, box, fill);
}

absl::StatusOr<Kernel> MakeBoxCopy(const KernelSpec& spec, BoxPlanner plan) {
  const TensorSpec& output = spec.outputs[0];
  const int64_t n = output.shape.elements();
  if (n == 0) return NothingToDo();
  ASSIGN_OR_RETURN(BoxCopy box, plan(spec));
  const bool covers = box.covers_result();
  const size_t size = SizeOf(output.dtype);
  if (box.elements() == 0) {
    return Kernel{[n, size, bits = box.fill](const KernelContext& context) {
      return GpuFill(*context.stream, context.outputs[0], n, size, bits);
    }};
  }
  box = box.Merged();
  if (covers && (box.axes.empty() || (box.axes.size() == 1 && box.axes[0].from == 1))) {
    return Kernel{
        [bytes = output.bytes(), skip = static_cast<size_t>(box.from_offset) * size](const KernelContext& context) {
          return gpu::CopyBytes(*context.stream, context.outputs[0], context.input<std::byte>(0) + skip, bytes);
        }};
  }
  const uint64_t fill = RepeatedBits(box.fill, size);
  const size_t unit = Widen(box, size);
  if (box.axes.size() > GpuBox::kMaxAxes) {
    return absl::InvalidArgumentError(absl::StrCat("moving elements along ", box.axes.size(),
                                                   " axes is not supported; at most ", int{GpuBox::kMaxAxes}));
  }
  GpuBox on_gpu;
  on_gpu.offset = box.from_offset;
  const int64_t units = n / static_cast<int64_t>(unit / size);
  for (const BoxAxis& axis : box.axes) {
    on_gpu.axis[on_gpu.axes++] = {Divider(axis.extent, units), Divider(axis.step, units), axis.from, axis.begin,
                                  axis.count};
  }
  return WithUnit(unit, [&](auto bytes) { return BoxKernelOf<decltype(bytes)::value>(units, on_gpu, covers, fill); });
}

void AddBoxCopy(KernelTable& table, absl::string_view op, BoxPlanner plan) {
  table.AddKernels(op, AnyTypeGpuKernels([plan](const KernelSpec& spec) { return MakeBoxCopy(spec, plan); }));
}

}  // namespace

void AddBoxCopyGpuKernels(KernelTable& table) {
  AddBoxCopy(table, "BroadcastLike", PlanBroadcastTo);
  AddBoxCopy(table, "BroadcastTo", PlanBroadcastTo);
  AddBoxCopy(table, "Pad", PlanPad);
  AddBoxCopy(table, "Slice", PlanSlice);
  AddBoxCopy(table, "SliceGrad", PlanSliceGrad);
  AddBoxCopy(table, "StridedSlice", PlanStridedSlice);
  AddBoxCopy(table, "StridedSliceGrad", PlanStridedSliceGrad);
  AddBoxCopy(table, "Tile", PlanTile);
  AddBoxCopy(table, "Transpose", PlanTranspose);
}

}  // namespace belfry::ops
