#include "ops/onednn/pooling.h"

#include <algorithm>

#include "framework/base/parallel.h"
#include "tests/main/testing.h"
#include "tests/ops/onednn/harness.h"

namespace belfry::ops::onednn {
namespace {

int64_t SizeX(const Pool2DShape& s) { return s.n * s.h * s.w * s.c; }
int64_t SizeY(const Pool2DShape& s) { return s.n * s.out_h() * s.out_w() * s.c; }

// The elements of x in the window of output o.
std::vector<int64_t> Window(const Pool2DShape& s, int64_t o) {
  const int64_t c = o % s.c, ow = o / s.c % s.out_w(), oh = o / s.c / s.out_w() % s.out_h();
  const int64_t n = o / s.c / s.out_w() / s.out_h();
  std::vector<int64_t> indices;
  for (int64_t r = 0; r < s.r; ++r)
    for (int64_t q = 0; q < s.s; ++q) {
      const int64_t h = oh * s.stride_h - s.pad_top + r, w = ow * s.stride_w - s.pad_left + q;
      if (h >= 0 && h < s.h && w >= 0 && w < s.w) indices.push_back(((n * s.h + h) * s.w + w) * s.c + c);
    }
  return indices;
}

std::vector<Pool2DShape> PoolShapes() {
  const PoolKind any = PoolKind::kMax;
  return {{any, 1, 1, 1, 1, 1, 1},
          {any, 2, 6, 8, 64, 3, 3, 2, 2, 0, 1, 0, 1},
          {any, 1, 7, 5, 3, 3, 2, 2, 1, 1, 1, 0, 1},
          {any, 3, 6, 6, 5, 2, 2, 2, 2},
          {any, 2, 9, 9, 17, 3, 3, 3, 1, 2, 2, 1, 0},
          {any, 2, 4, 4, 64, 4, 4}};
}

class Pooling : public ::testing::TestWithParam<std::tuple<size_t, PoolKind, DType, int>> {
 protected:
  Pooling() : threads_(std::get<3>(GetParam())) {
    shape_.kind = std::get<1>(GetParam());
    shape_.dtype = std::get<2>(GetParam());
  }
  // The divisor of an average.
  double Divisor(size_t elements) const {
    return shape_.kind == PoolKind::kAverageIncludePadding ? shape_.r * shape_.s : elements;
  }
  Pool2DShape shape_ = PoolShapes()[std::get<0>(GetParam())];

 private:
  ScopedParallelThreads threads_;
};

TEST_P(Pooling, ForwardAndBackward) {
  const DType dtype = shape_.dtype;
  if (!IsComputed(dtype)) GTEST_SKIP() << kNotComputed;
  auto forward = Pool2DForward(shape_, /*training=*/true);
  auto inference = Pool2DForward(shape_, /*training=*/false);
  auto backward = Pool2DBackward(shape_);
  ASSERT_TRUE(forward.ok()) << forward.status();
  ASSERT_TRUE(inference.ok()) << inference.status();
  ASSERT_TRUE(backward.ok()) << backward.status();
  EXPECT_EQ(forward->saved_bytes() > 0, shape_.kind == PoolKind::kMax);
  EXPECT_EQ(forward->saved_bytes(), backward->saved_bytes());
  EXPECT_EQ(inference->saved_bytes(), 0);
  SCOPED_TRACE(shape_.DebugString() + " " + std::string(forward->implementation()));

  const Values x = Random(SizeX(shape_), dtype), dy = Random(SizeY(shape_), dtype);
  Values y(SizeY(shape_)), dx(SizeX(shape_));
  for (int64_t o = 0; o < SizeY(shape_); ++o) {
    const std::vector<int64_t> window = Window(shape_, o);
    if (shape_.kind == PoolKind::kMax) {
      const int64_t best = *std::max_element(window.begin(), window.end(), [&](auto i, auto j) { return x[i] < x[j]; });
      y[o] = x[best];
      dx[best] += dy[o];
    } else {
      for (int64_t i : window) y[o] += x[i] / Divisor(window.size()), dx[i] += dy[o] / Divisor(window.size());
    }
  }
  Saved saved;
  const bool saves = forward->saved_bytes() > 0;
  ExpectClose(RunPrimitive(*forward, {{x, dtype}}, {{SizeY(shape_), dtype}}, saves ? &saved : nullptr)[0], y,
              Tolerance(dtype));
  ExpectClose(RunPrimitive(*inference, {{x, dtype}}, {{SizeY(shape_), dtype}})[0], y, Tolerance(dtype));
  ExpectClose(RunPrimitive(*backward, {{dy, dtype}}, {{SizeX(shape_), dtype}}, nullptr, saves ? &saved : nullptr)[0],
              dx, Tolerance(dtype));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Pooling,
                         ::testing::Combine(::testing::Range<size_t>(0, PoolShapes().size()),
                                            ::testing::Values(PoolKind::kMax, PoolKind::kAverageIncludePadding,
                                                              PoolKind::kAverageExcludePadding),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16),
                                            ::testing::Values(1, 2)));

TEST(PoolingTies, GoToTheFirstElement) {
  const Pool2DShape shape{PoolKind::kMax, 1, 2, 2, 16, 2, 2};
  auto forward = Pool2DForward(shape, true), backward = Pool2DBackward(shape);
  ASSERT_TRUE(forward.ok() && backward.ok());
  Saved saved;
  RunPrimitive(*forward, {{Values(SizeX(shape), 3.0)}}, {{SizeY(shape)}}, &saved);
  Values want(SizeX(shape));
  std::fill(want.begin(), want.begin() + 16, 1.0);
  EXPECT_EQ(RunPrimitive(*backward, {{Values(16, 1.0)}}, {{SizeX(shape)}}, nullptr, &saved)[0], want);
}

TEST(PoolingErrors, NameWhatIsWrong) {
  EXPECT_EQ(Pool2DForward({PoolKind::kMax, 1, 2, 2, 1, 3, 3}, true).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Pool2DBackward({PoolKind::kMax, 1, 4, 4, 1, 2, 2, 1, 1, 2}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace belfry::ops::onednn
