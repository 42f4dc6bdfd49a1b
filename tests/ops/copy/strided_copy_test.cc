#include <numeric>
#include <random>

#include "framework/base/parallel.h"
#include "ops/copy/strided_copy_impl.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

// Copies element by element, as a reference.
template <class T>
void NaiveCopy(const std::vector<CopyAxis>& axes, size_t axis, const T* from, T* to) {
  if (axis == axes.size()) {
    *to = *from;
    return;
  }
  for (int64_t i = 0; i < axes[axis].extent; ++i) {
    NaiveCopy(axes, axis + 1, from + i * axes[axis].from, to + i * axes[axis].to);
  }
}

// Copies a box whose axes are in random order, some reversed and some repeated, into part of a larger box.
template <class T>
void TestRandomCopies(int64_t most_elements) {
  std::mt19937& random = TestRandom();
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 60; ++trial) {
    const auto rank = static_cast<size_t>(draw(0, 5));
    std::vector<CopyAxis> axes(rank);
    int64_t elements = 1, to_size = 1, from_size = 1, from_offset = 0;
    for (CopyAxis& axis : axes) {
      axis.extent =
          draw(0, 20) == 0 ? 0 : draw(1, draw(0, 3) == 0 ? std::max<int64_t>(1, most_elements / elements) : 5);
      axis.extent = std::min(axis.extent, std::max<int64_t>(1, most_elements / elements));
      elements *= std::max<int64_t>(axis.extent, 1);
    }
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) {
      const bool repeats = draw(0, 4) == 0, reversed = draw(0, 4) == 0;
      axes[i].from = repeats ? 0 : reversed ? -from_size : from_size;
      if (repeats) continue;
      if (reversed) from_offset += std::max<int64_t>(axes[i].extent - 1, 0) * from_size;
      from_size *= std::max<int64_t>(axes[i].extent, 1);
    }
    for (size_t i = rank; i-- > 0;) {
      axes[i].to = to_size;
      to_size *= std::max<int64_t>(axes[i].extent, 1) + draw(0, 1);
    }
    std::vector<T> from(from_size), to(to_size + 3), expected(to_size + 3);
    for (T& value : from) value = static_cast<T>(random());
    NaiveCopy(axes, 0, from.data() + from_offset, expected.data() + 3);
    ASSERT_OK_AND_ASSIGN(const auto copy, StridedCopy::Make(sizeof(T), axes, from_offset, 3));
    ScopedParallelThreads threads(static_cast<int>(draw(1, 3)));
    copy.Run(from.data(), to.data());
    ASSERT_EQ(to, expected) << "trial " << trial;
  }
}

TEST(StridedCopyTest, EqualsElementByElement) {
  TestRandomCopies<uint8_t>(200);
  TestRandomCopies<uint16_t>(3000);
  TestRandomCopies<uint32_t>(200'000);
  TestRandomCopies<uint64_t>(50'000);
}

TEST(StridedCopyTest, TransposesWithRaggedTiles) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{3, 50'000}, {50'000, 3}, {333, 517}}) {
    std::vector<float> from(rows * columns), to(rows * columns);
    std::iota(from.begin(), from.end(), 0.f);
    ASSERT_OK_AND_ASSIGN(const auto copy, StridedCopy::Make(4, {{columns, 1, rows}, {rows, columns, 1}}));
    copy.Run(from.data(), to.data());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) ASSERT_EQ(to[c * rows + r], from[r * columns + c]);
    }
  }
}

TEST(StridedCopyTest, TooManyAxesAreAnError) {
  std::vector<CopyAxis> axes(StridedCopy::kMaxAxes + 1);
  int64_t stride = int64_t{1} << axes.size();
  for (CopyAxis& axis : axes) axis = {2, 0, stride /= 2};
  EXPECT_TRUE(StridedCopy::Make(4, axes).ok()) << "repetitions of one element merge";
  for (size_t i = 0; i < axes.size(); i += 2) axes[i].from = 1;
  EXPECT_EQ(StridedCopy::Make(4, axes).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace belfry::ops
