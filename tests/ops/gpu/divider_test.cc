#include "ops/gpu/divider_impl.h"
#include "tests/main/testing.h"

#include <algorithm>

namespace belfry::ops {
namespace {

constexpr int64_t kSmall = int64_t{1} << 31;

void ExpectDivides(int64_t divisor, int64_t limit) {
  const Divider by(divisor, limit);
  const auto check = [&](int64_t n) {
    if (n < 0 || n >= limit) return;
    ASSERT_EQ(by.Quotient(n), n / divisor) << n << " / " << divisor << " below " << limit;
    int64_t rest = n;
    ASSERT_EQ(by.Split(rest), n % divisor) << n << " % " << divisor;
    ASSERT_EQ(rest, n / divisor);
    if (!CountsIn32Bits(limit)) return;
    auto narrow = static_cast<uint32_t>(n);
    ASSERT_EQ(by.Quotient(narrow), n / divisor) << n << " / " << divisor << " of 32 bits";
    ASSERT_EQ(by.Split(narrow), n % divisor) << n << " % " << divisor << " of 32 bits";
    ASSERT_EQ(narrow, n / divisor);
  };
  for (int64_t n = 0; n < 300; ++n) check(n);
  const int64_t step = std::max<int64_t>(limit / divisor / 1000, 1) * divisor;
  for (int64_t n = 0; n < limit + step; n += step) {
    check(n - 1);
    check(n);
    check(n + divisor - 1);
  }
  check(limit - 1);
}

TEST(Divider, IsExact) {
  for (int64_t divisor = 1; divisor < 400; ++divisor) ExpectDivides(divisor, kSmall);
  for (int bits = 0; bits <= 31; ++bits) {
    for (const int64_t offset : {-1, 0, 1}) {
      if ((int64_t{1} << bits) + offset > 0) ExpectDivides((int64_t{1} << bits) + offset, kSmall);
    }
  }
  for (const int64_t divisor : {641, 6700417, 1000000007, 2147483629}) ExpectDivides(divisor, kSmall);
}

TEST(Divider, MayBeLargerThanAllNumbers) {
  for (const int64_t divisor : {int64_t{8}, kSmall, kSmall + 1, int64_t{1} << 60}) ExpectDivides(divisor, 7);
  ExpectDivides((int64_t{1} << 40) + 1, kSmall);
}

TEST(Divider, IsExactBeyond32Bits) {
  for (const int64_t divisor : {int64_t{1}, int64_t{3}, int64_t{64}, kSmall + 5}) ExpectDivides(divisor, 9 * kSmall);
}

}  // namespace
}  // namespace belfry::ops
