// The generated kernels of the bundled models' training steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/device/device.h"

namespace belfry {

// A kernel whose launches do nothing.
class NoKernel final : public CompiledKernel {
 public:
  absl::Status Launch(Stream&, int64_t, const void*, size_t) const override { return absl::OkStatus(); }
};

// The capabilities of cards for which they are compiled.
inline constexpr std::pair<int, int> kKernelCapabilities[] = {{8, 0}, {9, 0}, {10, 0}};

// The sources of all of them, in float32 and bfloat16. Errors: those of planning a step.
absl::StatusOr<std::vector<std::string>> KernelsOfModels();

}  // namespace belfry
