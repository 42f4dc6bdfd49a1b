#include "framework/base/dtype.h"

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"

namespace belfry {
namespace {

struct DTypeInfo {
  DType dtype;
  size_t size;
  absl::string_view name;
  absl::string_view tensorflow_name;
  absl::string_view tensorflow_short_name;
};

constexpr DTypeInfo kInfo[] = {
    {DType::kFloat32, 4, "float32", "DT_FLOAT", "float"}, {DType::kFloat64, 8, "float64", "DT_DOUBLE", "double"},
    {DType::kFloat16, 2, "float16", "DT_HALF", "half"},   {DType::kBFloat16, 2, "bfloat16", "DT_BFLOAT16", "bfloat16"},
    {DType::kInt32, 4, "int32", "DT_INT32", "int32"},     {DType::kInt64, 8, "int64", "DT_INT64", "int64"},
    {DType::kUInt8, 1, "uint8", "DT_UINT8", "uint8"},     {DType::kBool, 1, "bool", "DT_BOOL", "bool"},
};

const DTypeInfo& Info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  BELFRY_CHECK(index < std::size(kInfo) && kInfo[index].dtype == dtype);
  return kInfo[index];
}

}  // namespace

size_t SizeOf(DType dtype) { return Info(dtype).size; }
absl::string_view DTypeName(DType dtype) { return Info(dtype).name; }
absl::string_view TensorFlowName(DType dtype) { return Info(dtype).tensorflow_name; }
absl::string_view TensorFlowShortName(DType dtype) { return Info(dtype).tensorflow_short_name; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DTypeInfo& info : kInfo) {
    if (info.name == name) return info.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Unknown dtype '", name, "'; expected float32, float64, float16, bfloat16, int32, int64, uint8 or bool"));
}

bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}
bool IsInteger(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kUInt8; }

}  // namespace belfry
