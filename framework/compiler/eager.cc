#include "framework/compiler/eager.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/infer.h"

namespace belfry {

absl::StatusOr<std::vector<Tensor>> RunOp(const OpDef& op, const Attrs& attrs, absl::Span<const Tensor> inputs,
                                          uint64_t run) {
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<TensorSpec> input_specs;
  for (const Tensor& input : inputs) {
    shapes.push_back(input.shape());
    dtypes.push_back(input.dtype());
    input_specs.push_back({input.dtype(), input.shape()});
  }
  ASSIGN_OR_RETURN(const std::vector<TensorSpec> output_specs, InferOutputs(op, attrs, shapes, dtypes));
  if (op.kind == OpKind::kConst) return std::vector<Tensor>{attrs.Get<Tensor>("value")};
  if (op.kind == OpKind::kView) {
    Tensor view(output_specs[0].dtype, output_specs[0].shape);
    const auto offset = static_cast<size_t>(ViewBegin(op, attrs)) * SizeOf(view.dtype());
    if (view.bytes() > 0)
      std::memcpy(view.raw(), static_cast<const std::byte*>(inputs[0].raw()) + offset, view.bytes());
    return std::vector<Tensor>{view};
  }
  if (op.kind == OpKind::kNoOp) return std::vector<Tensor>();
  const KernelDef* def = op.types.empty() ? nullptr : op.FindKernel("CPU", KernelDType(op, attrs));
  if (def == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("Op ", op.name, " has no CPU kernel",
                     op.types.empty() ? "" : absl::StrCat(" for ", DTypeName(KernelDType(op, attrs)))));
  }
  ASSIGN_OR_RETURN(const Kernel kernel, def->make({op.name, attrs, input_specs, output_specs}));
  std::vector<const void*> input_data;
  for (const Tensor& input : inputs) input_data.push_back(input.raw());
  std::vector<Tensor> outputs;
  std::vector<void*> output_data;
  for (size_t i = 0; i < output_specs.size(); ++i) {
    const bool ref = op.output_arg(static_cast<int>(i)).ref;
    outputs.push_back(ref ? inputs[i] : Tensor(output_specs[i].dtype, output_specs[i].shape));
    output_data.push_back(outputs.back().raw());
  }
  Tensor workspace(DType::kUInt8, {static_cast<int64_t>(kernel.workspace_bytes)});
  RETURN_IF_ERROR(kernel.run({input_data.data(), output_data.data(), workspace.raw(), run, nullptr}));
  return outputs;
}

}  // namespace belfry
