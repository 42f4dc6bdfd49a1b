#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/gpu/autotune.h"
#include "spdlog/spdlog.h"

namespace belfry::ops {
namespace {

// The context of a node whose tensors and workspace are the given blocks, in order.
KernelContext ContextOf(const KernelSpec& spec, absl::Span<void* const> blocks, Stream& stream) {
  return {.inputs = const_cast<const void* const*>(blocks.data()),
          .outputs = blocks.data() + spec.inputs.size(),
          .workspace = blocks.back(),
          .run = 0,
          .stream = &stream};
}

}  // namespace

absl::StatusOr<Kernel> FasterKernel(const KernelSpec& spec, absl::string_view key, Kernel own,
                                    const std::function<absl::StatusOr<Kernel>()>& make_library) {
  constexpr int kCount = 2, kOwn = 0, kLibrary = 1;
  Device& device = *spec.device;
  if (device.math().deterministic) return own;
  std::string full_key = absl::StrCat(key, " ", LibraryVersion(), device.math().tf32 ? " tf32" : "");
  std::vector<size_t> bytes;
  for (const auto& tensors : {spec.inputs, spec.outputs}) {
    for (const TensorSpec& tensor : tensors) {
      absl::StrAppend(&full_key, " ", DTypeName(tensor.dtype), tensor.shape.ToString());
      bytes.push_back(tensor.bytes());
    }
  }
  ASSIGN_OR_RETURN(const int known, KnownFastest(device, full_key, kCount));
  if (known == kOwn) return own;
  absl::StatusOr<Kernel> library = make_library();
  if (absl::IsUnimplemented(library.status())) {
    RETURN_IF_ERROR(RememberFastest(device, full_key, kCount, kOwn));
    return own;
  }
  if (!library.ok()) {
    spdlog::warn("{}: {} uses Belfry's own kernel, because cuDNN's could not be created: {}", device.name().ToString(),
                 std::string(spec.name), std::string(library.status().message()));
    return own;
  }
  if (known == kLibrary) return library;
  bytes.push_back(std::max(own.workspace_bytes, library->workspace_bytes));
  ASSIGN_OR_RETURN(const int fastest,
                   MeasureFastest(device, full_key, kCount, bytes,
                                  [&](int candidate, Stream& stream, absl::Span<void* const> blocks) {
                                    return (candidate == kOwn ? own : *library).run(ContextOf(spec, blocks, stream));
                                  }));
  return fastest == kOwn ? std::move(own) : *std::move(library);
}

}  // namespace belfry::ops
