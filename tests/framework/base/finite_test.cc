#include "framework/base/finite.h"

#include <limits>
#include <vector>

#include "framework/base/half.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

template <class T>
void Check(DType dtype) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  std::vector<T> values;
  for (const float value : {0.0f, -1.5f, -infinity, nan, infinity, nan, 3.0f}) values.push_back(static_cast<T>(value));
  const NonFinite found = FindNonFinite(dtype, values.data(), static_cast<int64_t>(values.size()));
  EXPECT_EQ(found.nans, 2);
  EXPECT_EQ(found.infinities, 2);
  EXPECT_EQ(found.first, 2);
  EXPECT_EQ(found.ToString(), "2 NaN and 2 infinite values, the first at element 2");
  EXPECT_FALSE(FindNonFinite(dtype, values.data(), 2).any());
  EXPECT_FALSE(FindNonFinite(dtype, nullptr, 0).any());
}

TEST(FindNonFinite, CountsInEveryFloatType) {
  Check<float>(DType::kFloat32);
  Check<double>(DType::kFloat64);
  Check<Half>(DType::kFloat16);
  Check<BFloat16>(DType::kBFloat16);
}

TEST(FindNonFinite, LargestAndSmallestNumbersAreFinite) {
  const double values[] = {std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()};
  EXPECT_FALSE(FindNonFinite(DType::kFloat64, values, 2).any());
}

TEST(FindNonFinite, IntegersAreFinite) {
  const int32_t values[] = {-1, 0x7fc00000};
  EXPECT_FALSE(FindNonFinite(DType::kInt32, values, 2).any());
}

}  // namespace
}  // namespace belfry
