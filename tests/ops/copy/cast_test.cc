// Casts to 16 bits, which round once.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "framework/base/half.h"
#include "framework/base/philox.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/copy/element_bits.h"
#include "tests/main/seed.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

// Numbers that a long double holds exactly, rounded to T to nearest, ties to even, by the list of all of T.
template <class T>
class Rounder {
 public:
  Rounder() {
    for (uint32_t bits = 0; std::isfinite(ValueOf(bits)); ++bits) values_.push_back(ValueOf(bits));
    // The next number if the exponent had no end; halfway to it, results become infinite.
    values_.push_back(2 * values_.back() - values_[values_.size() - 2]);
  }
  uint16_t BitsOf(long double x) const {
    const long double size = std::abs(x);
    const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
    const auto above = std::lower_bound(values_.begin(), values_.end(), size);
    if (above == values_.end()) return sign | static_cast<uint16_t>(values_.size() - 1);
    auto at = static_cast<size_t>(above - values_.begin());
    if (at > 0 && *above != size) {
      const long double down = size - values_[at - 1], up = *above - size;
      if (down < up || (down == up && at % 2 == 1)) --at;
    }
    return sign | static_cast<uint16_t>(at);
  }
  // Numbers at and around the ties of T, in all its exponents.
  std::vector<long double> Ties() const {
    std::vector<long double> ties;
    for (size_t i = 0; i + 1 < values_.size(); ++i) ties.push_back((values_[i] + values_[i + 1]) / 2);
    return ties;
  }

 private:
  static float ValueOf(uint32_t bits) { return static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(bits))); }

  std::vector<long double> values_;  // those not negative, by their bits
};

// The bits of the numbers, converted by the op.
template <class From>
std::vector<uint16_t> Converted(const std::vector<From>& numbers, DType dtype) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = Const(scope, Tensor::Of<From>(numbers, {static_cast<int64_t>(numbers.size())}));
  const Tensor y = ValueOf(Value(Cast(scope, x, dtype)));
  std::vector<uint16_t> bits(numbers.size());
  std::memcpy(bits.data(), y.raw(), y.bytes());
  return bits;
}

template <class T, class From>
void ExpectRoundedOnce(const std::vector<From>& numbers) {
  const Rounder<T> rounder;
  const std::vector<uint16_t> bits = Converted(numbers, kDTypeOf<T>);
  for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(bits[i], rounder.BitsOf(numbers[i])) << numbers[i];
}

template <class T>
class CastToSixteenBits : public testing::Test {};
using SixteenBits = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(CastToSixteenBits, SixteenBits);

TYPED_TEST(CastToSixteenBits, OfDoublesAroundTies) {
  std::vector<double> numbers;
  for (const long double tie : Rounder<TypeParam>().Ties()) {
    const auto at = static_cast<double>(tie);
    for (const double x : {at, std::nextafter(at, 0), std::nextafter(at, INFINITY), at * (1 + 0x1p-40)}) {
      numbers.insert(numbers.end(), {x, -x});
    }
  }
  ExpectRoundedOnce<TypeParam>(numbers);
}

TYPED_TEST(CastToSixteenBits, OfDoublesOfAllExponents) {
  PhiloxStream random(TestSeed(), 0);
  std::vector<double> numbers = {0.0, -0.0, 0x1p-1074, INFINITY, -INFINITY, std::numeric_limits<double>::max()};
  for (int exponent = -1074; exponent < 1024; ++exponent) {
    for (int i = 0; i < 8; ++i)
      numbers.push_back(std::ldexp((i % 2 == 0 ? 1 : -1) * (1 + random.NextFloat()), exponent));
  }
  ExpectRoundedOnce<TypeParam>(numbers);
}

TYPED_TEST(CastToSixteenBits, OfIntegers) {
  PhiloxStream random(TestSeed(), 1);
  std::vector<int64_t> longs = {0, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (int width = 0; width < 63; ++width) {
    for (int i = 0; i < 64; ++i) {
      const auto drawn = static_cast<int64_t>(static_cast<uint64_t>(random.Next()) << 31 ^ random.Next());
      const int64_t top = int64_t{1} << width, low = drawn & (top - 1);
      // Most bits random; and those behind the last that is kept half of it, with one far below or above.
      const int64_t half = width > 12 ? (low & ~(top >> 7 | ((top >> 7) - 1))) | top >> 8 : low;
      for (const int64_t x : {top | low, top | half, top | (half + 1), top | (half - 1)})
        longs.insert(longs.end(), {x, -x});
    }
  }
  ExpectRoundedOnce<TypeParam>(longs);
  std::vector<int32_t> ints;
  for (const int64_t x : longs) {
    if (x == static_cast<int32_t>(x)) ints.push_back(static_cast<int32_t>(x));
  }
  ExpectRoundedOnce<TypeParam>(ints);
}

TEST(Cast, ToBFloat16OfNumbersThatFloatRoundsToTies) {
  EXPECT_EQ(Converted<int32_t>({16842753}, DType::kBFloat16), std::vector<uint16_t>{0x4b81});
  EXPECT_EQ(Converted<int64_t>({16842753}, DType::kBFloat16), std::vector<uint16_t>{0x4b81});
  EXPECT_EQ(Converted<double>({1 + 0x1p-8 + 0x1p-40}, DType::kBFloat16), std::vector<uint16_t>{0x3f81});
  EXPECT_EQ(ElementBits(1 + 0x1p-8 + 0x1p-40, DType::kBFloat16), 0x3f81u);
}

}  // namespace
}  // namespace belfry::ops
