#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/parallel.h"
#include "ops/onednn/batch_norm.h"
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

class BatchNorm : public ::testing::TestWithParam<Case> {};

TEST_P(BatchNorm, TrainingInferenceAndBackward) {
  const int64_t c = std::get<0>(GetParam());
  const DType dtype = std::get<1>(GetParam());
  const ScopedParallelThreads threads(std::get<2>(GetParam()));
  for (const BatchNormShape& shape :
       {BatchNormShape{.n = 3, .h = 4, .w = 5, .c = c, .dtype = dtype},
        BatchNormShape{.n = 23, .h = 1, .w = 1, .c = c, .epsilon = 0.1f, .dtype = dtype}}) {
    auto training = BatchNormTraining(shape), inference = BatchNormInference(shape);
    auto backward = BatchNormBackward(shape), fixed = BatchNormBackward(shape, /*fixed_statistics=*/true);
    ASSERT_TRUE(training.ok()) << training.status();
    ASSERT_TRUE(inference.ok()) << inference.status();
    ASSERT_TRUE(backward.ok()) << backward.status();
    ASSERT_TRUE(fixed.ok()) << fixed.status();
    SCOPED_TRACE(std::string(training->implementation()) + " / " + std::string(backward->implementation()));

    const int64_t rows = shape.n * shape.h * shape.w, size = rows * c;
    const Values x = Random(size, dtype), dy = Random(size, dtype), scale = Random(c), shift = Random(c);
    Values mean(c), variance(c), y(size), dx(size), dx_fixed(size), dscale(c), dshift(c);
    for (int64_t i = 0; i < size; ++i) mean[i % c] += x[i] / rows;
    for (int64_t i = 0; i < size; ++i) variance[i % c] += (x[i] - mean[i % c]) * (x[i] - mean[i % c]) / rows;
    const auto inverse = [&](int64_t i) { return 1 / std::sqrt(variance[i % c] + shape.epsilon); };
    const auto normal = [&](int64_t i) { return (x[i] - mean[i % c]) * inverse(i); };
    for (int64_t i = 0; i < size; ++i) {
      y[i] = scale[i % c] * normal(i) + shift[i % c];
      dscale[i % c] += dy[i] * normal(i);
      dshift[i % c] += dy[i];
    }
    for (int64_t i = 0; i < size; ++i) {
      dx_fixed[i] = scale[i % c] * inverse(i) * dy[i];
      dx[i] = scale[i % c] * inverse(i) * (dy[i] - dshift[i % c] / rows - normal(i) * dscale[i % c] / rows);
    }
    const double tolerance = Tolerance(dtype);
    auto got = RunPrimitive(*training, {{x, dtype}, {scale}, {shift}}, {{size, dtype}, {c}, {c}});
    ExpectClose(got[0], y, tolerance);
    ExpectClose(got[1], mean, tolerance);
    ExpectClose(got[2], variance, tolerance);
    got = RunPrimitive(*inference, {{x, dtype}, {scale}, {shift}, {mean}, {variance}}, {{size, dtype}});
    ExpectClose(got[0], y, tolerance);
    for (const bool is_fixed : {false, true}) {
      got = RunPrimitive(is_fixed ? *fixed : *backward, {{x, dtype}, {dy, dtype}, {scale}, {mean}, {variance}},
                         {{size, dtype}, {c}, {c}});
      ExpectClose(got[0], is_fixed ? dx_fixed : dx, tolerance);
      ExpectClose(got[1], dscale, tolerance);
      ExpectClose(got[2], dshift, tolerance);
    }
  }
}

const auto kCases = ::testing::Combine(::testing::Values<int64_t>(3, 5, 16, 64),
                                       ::testing::Values(DType::kFloat32, DType::kBFloat16), ::testing::Values(1, 2));
INSTANTIATE_TEST_SUITE_P(Channels, Lrn, kCases);
INSTANTIATE_TEST_SUITE_P(Channels, BatchNorm, kCases);

}  // namespace
}  // namespace belfry::ops::onednn
