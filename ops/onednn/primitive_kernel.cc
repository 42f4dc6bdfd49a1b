#include "ops/onednn/primitive_kernel_impl.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "framework/base/check.h"
#include "framework/base/status.h"

namespace belfry::ops {
namespace {

constexpr size_t kMaxArguments = 6;

}  // namespace

bool HasElements(const KernelSpec& spec) {
  const auto filled = [](const TensorSpec& tensor) { return tensor.shape.elements() > 0; };
  return std::all_of(spec.inputs.begin(), spec.inputs.end(), filled) &&
         std::all_of(spec.outputs.begin(), spec.outputs.end(), filled);
}

absl::StatusOr<std::optional<Kernel>> PrimitiveKernel(const KernelSpec& spec,
                                                      absl::StatusOr<onednn::Primitive> primitive,
                                                      std::vector<int> inputs, std::vector<int> outputs) {
  if (absl::IsUnimplemented(primitive.status())) return std::optional<Kernel>();
  if (!primitive.ok()) return primitive.status();
  BELFRY_CHECK(inputs.size() <= kMaxArguments && outputs.size() <= kMaxArguments);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto input = static_cast<int>(i);
    const size_t bytes = primitive->PreparedBytes(input);
    if (bytes == 0) continue;
    const void* const form = spec.Prepared(
        inputs[i], bytes, [&](const void* data, void* to) { return primitive->Prepare(input, data, to).ok(); });
    if (form != nullptr) primitive->UsePrepared(input, form);
  }
  const size_t workspace_bytes = primitive->workspace_bytes();
  auto shared = std::make_shared<onednn::Primitive>(*std::move(primitive));
  return Kernel{[shared, inputs = std::move(inputs), outputs = std::move(outputs)](const KernelContext& context) {
                  std::array<const void*, kMaxArguments> in;
                  std::array<void*, kMaxArguments> out;
                  for (size_t i = 0; i < inputs.size(); ++i) in[i] = context.inputs[inputs[i]];
                  for (size_t i = 0; i < outputs.size(); ++i) out[i] = context.outputs[outputs[i]];
                  return shared->Run({in.data(), inputs.size()}, {out.data(), outputs.size()}, context.workspace);
                },
                workspace_bytes};
}

}  // namespace belfry::ops
