#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "framework/base/alignment.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "ops/common/op_rules_impl.h"
#include "ops/onednn/in_float32_impl.h"
#include "ops/onednn/primitive.h"

namespace belfry::ops {
namespace {

// A 16-bit tensor of the node, and the offset of its float copy in the workspace.
struct Widening {
  int index;
  int64_t elements;
  size_t offset;
};

// Runs a float32 kernel on converted copies of tensors of T. All inputs are read before an output is written, so it may
// run in place even if its kernel may not.
template <class T>
class InFloat32 {
 public:
  // `make` makes the op's float32 kernel.
  static absl::StatusOr<Kernel> Make(const OpDef& op, const KernelFactory& make, const KernelSpec& spec) {
    InFloat32 kernel;
    size_t bytes = AlignUp((spec.inputs.size() + spec.outputs.size()) * sizeof(void*));
    const auto widen = [&](absl::Span<const TensorSpec> specs, std::vector<Widening>& widenings) {
      std::vector<TensorSpec> wide(specs.begin(), specs.end());
      for (size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].dtype != kDTypeOf<T>) continue;
        wide[i].dtype = DType::kFloat32;
        if (&widenings == &kernel.inputs_ && op.input_arg(static_cast<int>(i)).shape_only) continue;
        widenings.push_back({static_cast<int>(i), specs[i].shape.elements(), bytes});
        bytes += AlignUp(wide[i].bytes());
      }
      return wide;
    };
    const std::vector<TensorSpec> inputs = widen(spec.inputs, kernel.inputs_);
    const std::vector<TensorSpec> outputs = widen(spec.outputs, kernel.outputs_);
    ASSIGN_OR_RETURN(Kernel wide, make({spec.name, spec.attrs, inputs, outputs, spec.device}));
    kernel.input_count_ = spec.inputs.size();
    kernel.output_count_ = spec.outputs.size();
    kernel.workspace_ = bytes;
    kernel.run_ = std::move(wide.run);
    const size_t all = bytes + wide.workspace_bytes;
    Kernel made{std::move(kernel), all, wide.uses_run};
    made.error = std::move(wide.error);
    made.engine = wide.engine;
    return made;
  }

  absl::Status operator()(const KernelContext& context) const {
    auto* const memory = static_cast<std::byte*>(context.workspace);
    auto** const inputs = reinterpret_cast<const void**>(memory);
    auto** const outputs = reinterpret_cast<void**>(memory) + input_count_;
    std::copy_n(context.inputs, input_count_, inputs);
    std::copy_n(context.outputs, output_count_, outputs);
    for (const Widening& input : inputs_) {
      auto* const copy = reinterpret_cast<float*>(memory + input.offset);
      ParallelBlocks(input.elements, 1, [&](int64_t begin, int64_t end) {
        ToFloat(context.input<T>(input.index) + begin, copy + begin, end - begin);
      });
      inputs[input.index] = copy;
    }
    for (const Widening& output : outputs_) outputs[output.index] = memory + output.offset;
    KernelContext wide = context;
    wide.inputs = inputs;
    wide.outputs = outputs;
    wide.workspace = memory + workspace_;
    RETURN_IF_ERROR(run_(wide));
    for (const Widening& output : outputs_) {
      const auto* const result = reinterpret_cast<const float*>(memory + output.offset);
      ParallelBlocks(output.elements, 1, [&](int64_t begin, int64_t end) {
        FromFloat(result + begin, context.output<T>(output.index) + begin, end - begin);
      });
    }
    return absl::OkStatus();
  }

 private:
  std::vector<Widening> inputs_, outputs_;
  size_t input_count_ = 0, output_count_ = 0;
  size_t workspace_ = 0;  // offset of the kernel's own workspace
  KernelFunction run_;
};

}  // namespace

OpDef WithHalfPrecision(OpDef op, std::function<bool(const KernelSpec&)> own) {
  const KernelDef* const wide = op.FindKernel("CPU", DType::kFloat32);
  BELFRY_CHECK(wide != nullptr);
  const auto args = std::make_shared<const OpDef>(OpDef{.inputs = op.inputs});
  for (KernelDef& kernel : op.kernels) {
    if (kernel.dtype != DType::kBFloat16) continue;
    kernel.make = [args, own, wide = wide->make, make = std::move(kernel.make)](const KernelSpec& spec) {
      const bool copies = onednn::BFloat16Time() > 1 && !(own != nullptr && own(spec));
      return copies ? InFloat32<BFloat16>::Make(*args, wide, spec) : make(spec);
    };
  }
  const auto make = [args, wide = wide->make](const KernelSpec& spec) {
    return InFloat32<Half>::Make(*args, wide, spec);
  };
  op.kernels.push_back({.device_type = "CPU", .dtype = DType::kFloat16, .make = make});
  return op;
}

}  // namespace belfry::ops
