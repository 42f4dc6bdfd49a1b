#include "framework/base/dtype.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

TEST(DType, EachTypeHasItsSizeAndNames) {
  struct Row {
    DType dtype;
    size_t size;
    const char* name;
    const char* tensorflow_name;
    const char* tensorflow_short_name;
    bool floating;
    bool integer;
  };
  const Row rows[] = {
      {DType::kFloat32, 4, "float32", "DT_FLOAT", "float", true, false},
      {DType::kFloat64, 8, "float64", "DT_DOUBLE", "double", true, false},
      {DType::kFloat16, 2, "float16", "DT_HALF", "half", true, false},
      {DType::kBFloat16, 2, "bfloat16", "DT_BFLOAT16", "bfloat16", true, false},
      {DType::kInt32, 4, "int32", "DT_INT32", "int32", false, true},
      {DType::kInt64, 8, "int64", "DT_INT64", "int64", false, true},
      {DType::kUInt8, 1, "uint8", "DT_UINT8", "uint8", false, true},
      {DType::kBool, 1, "bool", "DT_BOOL", "bool", false, false},
  };
  std::set<DType> seen;
  for (const Row& row : rows) {
    EXPECT_EQ(SizeOf(row.dtype), row.size) << row.name;
    EXPECT_EQ(DTypeName(row.dtype), row.name);
    EXPECT_EQ(TensorFlowName(row.dtype), row.tensorflow_name);
    EXPECT_EQ(TensorFlowShortName(row.dtype), row.tensorflow_short_name);
    EXPECT_EQ(IsFloating(row.dtype), row.floating) << row.name;
    EXPECT_EQ(IsInteger(row.dtype), row.integer) << row.name;
    EXPECT_EQ(ParseDType(row.name).value(), row.dtype);
    seen.insert(row.dtype);
  }
  EXPECT_EQ(seen, std::set<DType>(std::begin(kAllDTypes), std::end(kAllDTypes)));
}

template <class T>
void ExpectDTypeOf(DType dtype) {
  EXPECT_EQ(kDTypeOf<T>, dtype);
  EXPECT_EQ(sizeof(T), SizeOf(dtype));
}

TEST(DType, FollowsFromTheElementType) {
  ExpectDTypeOf<float>(DType::kFloat32);
  ExpectDTypeOf<double>(DType::kFloat64);
  ExpectDTypeOf<Half>(DType::kFloat16);
  ExpectDTypeOf<BFloat16>(DType::kBFloat16);
  ExpectDTypeOf<int32_t>(DType::kInt32);
  ExpectDTypeOf<int64_t>(DType::kInt64);
  ExpectDTypeOf<uint8_t>(DType::kUInt8);
  ExpectDTypeOf<bool>(DType::kBool);
}

TEST(DType, RefusesOtherNames) {
  for (const char* name : {"", "float", "FLOAT32", "float32 ", "DT_FLOAT", "int16"}) {
    const absl::Status status = ParseDType(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), testing::HasSubstr(absl::StrCat("'", name, "'")));
  }
}

TEST(DType, AValueOutsideTheEnumIsABug) { EXPECT_DEATH(SizeOf(static_cast<DType>(8)), "CHECK failed"); }

}  // namespace
}  // namespace belfry
