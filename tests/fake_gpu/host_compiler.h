// Generated kernels on fake GPUs.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/device/device.h"

namespace belfry {

// Compiles the source of a generated kernel (Device::CompileKernel) with the C++ compiler that built this test, for a
// fake GPU whose pointers are not tagged. Threads and blocks run one after the other, backwards. Thread-safe.
absl::StatusOr<std::shared_ptr<const CompiledKernel>> CompileForHost(const std::string& source);

}  // namespace belfry
