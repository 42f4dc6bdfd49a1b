// The size of ONNX files. Internal.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace belfry::onnx {

// Unimplemented, with the size, if a message of `bytes` bytes is more than protobuf can write.
absl::Status CheckMessageSize(uint64_t bytes);

}  // namespace belfry::onnx
