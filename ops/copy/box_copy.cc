#include "ops/copy/box_copy.h"

#include <utility>

#include "framework/base/status.h"
#include "ops/copy/copy_impl.h"

namespace belfry::ops {

int64_t BoxCopy::elements() const {
  int64_t elements = 1;
  for (const BoxAxis& axis : axes) elements *= axis.count;
  return elements;
}

bool BoxCopy::covers_result() const {
  for (const BoxAxis& axis : axes) {
    if (!axis.whole()) return false;
  }
  return true;
}

BoxCopy BoxCopy::Merged() const {
  BoxCopy merged = {.from_offset = from_offset, .fill = fill};
  for (const BoxAxis& axis : axes) {
    if (axis.extent == 1 && axis.whole()) continue;
    BoxAxis* const outer = merged.axes.empty() ? nullptr : &merged.axes.back();
    if (outer != nullptr && axis.whole() && outer->step == 1 && outer->from == axis.extent * axis.from) {
      *outer = {outer->extent * axis.extent, axis.from, outer->begin * axis.extent, 1, outer->count * axis.extent};
    } else {
      merged.axes.push_back(axis);
    }
  }
  return merged;
}

std::vector<KernelDef> BoxCopyKernels(BoxPlanner plan) {
  return AnyTypeKernels([plan](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
    ASSIGN_OR_RETURN(const BoxCopy box, plan(spec));
    std::vector<CopyAxis> axes;
    int64_t to_offset = 0, stride = 1;
    for (size_t i = box.axes.size(); i-- > 0; stride *= box.axes[i].extent) {
      const BoxAxis& axis = box.axes[i];
      axes.insert(axes.begin(), {axis.count, axis.from, axis.step * stride});
      to_offset += axis.begin * stride;
    }
    const TensorSpec& output = spec.outputs[0];
    const size_t size = SizeOf(output.dtype);
    ASSIGN_OR_RETURN(StridedCopy copy, StridedCopy::Make(size, std::move(axes), box.from_offset, to_offset));
    const int64_t filled = box.covers_result() ? 0 : output.shape.elements();
    return Kernel{[copy = std::move(copy), filled, size, bits = box.fill](const KernelContext& context) {
      FillElements(context.outputs[0], filled, size, bits);
      copy.Run(context.inputs[0], context.outputs[0]);
      return absl::OkStatus();
    }};
  });
}

}  // namespace belfry::ops
