// Convolution kernels in float32 beside plain loops in float64, on as many threads as the parameter says.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "framework/base/parallel.h"
#include "ops/convolution/engines/loops_impl.h"
#include "tests/main/testing.h"
#include "tests/ops/convolution/geometry.h"

namespace belfry::ops {

// Floats with the alignment of a workspace, NaN until they are written.
class Floats {
 public:
  explicit Floats(int64_t n) : n_(n), all_(static_cast<size_t>(n) + 16, std::numeric_limits<float>::quiet_NaN()) {}
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(all_.data());
    return all_.data() + (64 - address % 64) % 64 / sizeof(float);
  }
  std::vector<float> values() { return {data(), data() + n_}; }

 private:
  int64_t n_;
  std::vector<float> all_;
};

class LoopsTest : public testing::TestWithParam<int> {
 protected:
  std::vector<float> Normal(int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = normal_(random_);
    return values;
  }
  static std::vector<double> Doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

  // The error of a sum of `terms` products is within that of as many roundings of its largest part.
  static void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected, int64_t terms) {
    const double bound = 8 * std::sqrt(static_cast<double>(terms)) * 0x1p-20;
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      if (std::abs(actual[i] - expected[i]) <= bound) continue;  // faster than the assertion
      ASSERT_NEAR(actual[i], expected[i], bound) << "at " << i;
    }
  }

  // The n floats that `run` writes, which have the same bits on one thread.
  template <class Run>
  static std::vector<float> Result(int64_t n, const Run& run) {
    Floats actual(n), on_one(n);
    {
      const ScopedParallelThreads threads(GetParam());
      run(actual.data());
    }
    const ScopedParallelThreads threads(1);
    run(on_one.data());
    EXPECT_EQ(actual.values(), on_one.values());
    return actual.values();
  }

 private:
  std::mt19937 random_{TestSeed()};
  std::normal_distribution<float> normal_;
};

}  // namespace belfry::ops
