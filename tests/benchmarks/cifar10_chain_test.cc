#include "benchmarks/cifar10_chain.h"

#include <omp.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/main/testing.h"

namespace belfry::benchmarks {
namespace {

constexpr int64_t kPixels = Cifar10Chain::kSide * Cifar10Chain::kSide * Cifar10Chain::kChannels;

class Chain : public ::testing::Test {
 protected:
  static constexpr int64_t kBatch = 12;

  Chain() : images_(kBatch * kPixels), labels_(kBatch), former_threads_(omp_get_max_threads()) {
    omp_set_num_threads(1);
    std::mt19937 random(TestSeed());
    std::normal_distribution<float> normal;
    for (float& value : images_) value = normal(random);
    for (int32_t& label : labels_) label = static_cast<int32_t>(random() % Cifar10Chain::kClasses);
  }

  // oneDNN has some of the chain only as reference loops on processors without AVX-512.
  void SetUp() override {
    try {
      const Cifar10Chain chain(kBatch, 1);
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  float Step(Cifar10Chain& chain, float learning_rate) {
    return chain.Step(images_.data(), labels_.data(), learning_rate);
  }

  ~Chain() override { omp_set_num_threads(former_threads_); }

  std::vector<float> images_;
  std::vector<int32_t> labels_;
  const int former_threads_;
};

TEST_F(Chain, LearnsFixedDataByHeart) {
  Cifar10Chain chain(kBatch, 3);
  // ln 10 of an untrained classifier, and 0.002 |w|^2 of 958464 weights with a truncated deviation of about 0.0352.
  const float first = Step(chain, 0.05f);
  EXPECT_NEAR(first, std::log(10.0f) + 0.002f * 958464 * 0.0352f * 0.0352f, 0.2f);
  // How soon depends on the data: some labels take a plateau of fifty steps.
  float last = first;
  for (int step = 0; step < 400 && !(last < first - 1.0f); ++step) last = Step(chain, 0.05f);
  EXPECT_LT(last, first - 1.0f);
}

// Moving all parameters a little against the gradient lowers the loss by rate |gradient|^2, so twice the rate lowers it
// twice as much, whatever the units.
TEST_F(Chain, FollowsTheGradient) {
  const auto drop = [&](float rate) {
    Cifar10Chain chain(kBatch, 4);
    const double before = Step(chain, rate);
    return before - Step(chain, 0);
  };
  const double small = drop(2e-3f), large = drop(4e-3f);
  EXPECT_GT(small, 0);
  EXPECT_NEAR(large / small, 2, 0.3);
}

TEST_F(Chain, IsRepeatableAndAgreesBetweenThreadCounts) {
  const auto losses = [&](int threads) {
    omp_set_num_threads(threads);
    Cifar10Chain chain(kBatch, 5);
    std::vector<float> result;
    for (int step = 0; step < 5; ++step) result.push_back(Step(chain, 0.02f));
    return result;
  };
  const std::vector<float> one = losses(1), two = losses(2);
  EXPECT_EQ(one, losses(1));
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-3);
}

TEST_F(Chain, ProfileNamesEveryPart) {
  Cifar10Chain chain(kBatch, 6);
  double flops = 0;
  for (const Cifar10Chain::Part& part : chain.Profile(images_.data(), labels_.data(), 0.01f, 1)) {
    EXPECT_FALSE(part.name.empty());
    EXPECT_FALSE(part.implementation.empty());
    EXPECT_GE(part.milliseconds, 0);
    flops += part.flops;
  }
  EXPECT_NEAR(flops / kBatch, 105e6, 3e6);
}

}  // namespace
}  // namespace belfry::benchmarks
