#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/parallel.h"
#include "ops/onednn/lrn.h"
#include "tests/ops/onednn/harness.h"

namespace belfry::ops::onednn {
namespace {

// (channels, dtype, threads)
using Case = std::tuple<int64_t, DType, int>;

class Lrn : public ::testing::TestWithParam<Case> {};

TEST_P(Lrn, ForwardAndBackward) {
  const auto [c, dtype, thread_count] = GetParam();
  const ScopedParallelThreads threads(thread_count);
  const LrnShape shape{
      .n = 2, .h = 3, .w = 5, .c = c, .depth_radius = 4, .bias = 1.5f, .alpha = 0.3f, .beta = 0.75f, .dtype = dtype};
  const int64_t size = shape.n * shape.h * shape.w * c;
  auto forward = LrnForward(shape, true), inference = LrnForward(shape, false);
  auto backward = LrnBackward(shape);
  ASSERT_TRUE(forward.ok()) << forward.status();
  ASSERT_TRUE(inference.ok()) << inference.status();
  ASSERT_TRUE(backward.ok()) << backward.status();
  EXPECT_EQ(forward->saved_bytes(), backward->saved_bytes());
  SCOPED_TRACE(std::string(forward->implementation()) + " / " + std::string(backward->implementation()));

  const Values x = Random(size, dtype), dy = Random(size, dtype);
  Values y(size), dx(size);
  for (int64_t pixel = 0; pixel < size; pixel += c) {
    for (int64_t i = 0; i < c; ++i) {
      const int64_t begin = std::max<int64_t>(0, i - 4), end = std::min(c, i + 5);
      double norm = shape.bias;
      for (int64_t j = begin; j < end; ++j) norm += shape.alpha * x[pixel + j] * x[pixel + j];
      y[pixel + i] = x[pixel + i] * std::pow(norm, -shape.beta);
      dx[pixel + i] += dy[pixel + i] * std::pow(norm, -shape.beta);
      for (int64_t j = begin; j < end; ++j) {
        dx[pixel + j] -= dy[pixel + i] * y[pixel + i] / norm * 2 * shape.alpha * shape.beta * x[pixel + j];
      }
    }
  }
  Saved saved;
  const bool saves = forward->saved_bytes() > 0;
  ExpectClose(RunPrimitive(*forward, {{x, dtype}}, {{size, dtype}}, saves ? &saved : nullptr)[0], y, Tolerance(dtype));
  ExpectClose(RunPrimitive(*inference, {{x, dtype}}, {{size, dtype}})[0], y, Tolerance(dtype));
  const auto got =
      RunPrimitive(*backward, {{x, dtype}, {dy, dtype}}, {{size, dtype}}, nullptr, saves ? &saved : nullptr);
  ExpectClose(got[0], dx, 2 * Tolerance(dtype));
}

TEST(LrnErrors, RefusesWhatTheLibraryGetsWrong) {
  const LrnShape shape{.n = 2, .h = 3, .w = 5, .c = 20, .depth_radius = 4, .beta = 0.75f};
  EXPECT_TRUE(LrnForward(shape, true).ok());
  EXPECT_EQ(LrnBackward(shape).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(LrnForward({.n = 1, .h = 2, .w = 2, .c = 16, .depth_radius = 0}, true).status().code(),
            absl::StatusCode::kUnimplemented);
  LrnShape slow = shape;
  slow.beta = 0.5f;
  EXPECT_EQ(LrnForward(slow, true).status().code(), absl::StatusCode::kUnimplemented);
  auto allowed = LrnForward(slow, true, /*allow_reference=*/true);
  ASSERT_TRUE(allowed.ok()) << allowed.status();
  EXPECT_TRUE(allowed->is_reference());
  EXPECT_EQ(LrnForward({.n = 1, .h = 0, .w = 2, .c = 16}, true).status().code(), absl::StatusCode::kInvalidArgument);
}

const auto kCases = ::testing::Combine(::testing::Values<int64_t>(3, 5, 16, 64),
                                       ::testing::Values(DType::kFloat32, DType::kBFloat16), ::testing::Values(1, 2));
INSTANTIATE_TEST_SUITE_P(Channels, Lrn, kCases);

}  // namespace
}  // namespace belfry::ops::onednn
