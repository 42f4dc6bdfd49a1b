// Dispatch by target dtype for the kernels of Cast. Internal.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

// Returns make(TypeTag<To>()), where To is the C++ type of dtype `to`.
template <class Make>
absl::StatusOr<Kernel> MakeCastTo(DType to, const Make& make) {
  switch (to) {
    case DType::kFloat32: return make(TypeTag<float>());
    case DType::kFloat64: return make(TypeTag<double>());
    case DType::kFloat16: return make(TypeTag<Half>());
    case DType::kBFloat16: return make(TypeTag<BFloat16>());
    case DType::kInt32: return make(TypeTag<int32_t>());
    case DType::kInt64: return make(TypeTag<int64_t>());
    case DType::kUInt8: return make(TypeTag<uint8_t>());
    case DType::kBool: return make(TypeTag<bool>());
  }
  return absl::InternalError("no such dtype");
}

}  // namespace belfry::ops
