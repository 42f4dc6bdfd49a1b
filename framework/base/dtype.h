// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The 16-bit floats are Eigen's, declared here so that users of a Tensor need not include Eigen. Code that computes
// with them includes "framework/base/half.h".
namespace Eigen {
struct half;
struct bfloat16;
}  // namespace Eigen

namespace belfry {

using Half = Eigen::half;
using BFloat16 = Eigen::bfloat16;

enum class DType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kInt64, kUInt8, kBool };

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                                       DType::kInt32,   DType::kInt64,   DType::kUInt8,   DType::kBool};

// Bytes of one element.
size_t SizeOf(DType dtype);
// "float32", "bfloat16", "int64", "bool" ...
absl::string_view DTypeName(DType dtype);
// TensorFlow's names, used in node summaries: "DT_FLOAT", "DT_BFLOAT16", "DT_INT64" ...
absl::string_view TensorFlowName(DType dtype);
// TensorFlow's short names, used in tensor summaries: "float", "double", "half", "int32" ...
absl::string_view TensorFlowShortName(DType dtype);
// Inverse of DTypeName; InvalidArgument for any other text.
absl::StatusOr<DType> ParseDType(absl::string_view name);

// True for float16, bfloat16, float32 and float64.
bool IsFloating(DType dtype);
// True for int32, int64 and uint8.
bool IsInteger(DType dtype);

// kDTypeOf<T> is the DType whose elements have the C++ type T.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

}  // namespace belfry
