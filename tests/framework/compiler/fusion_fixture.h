// Compares a graph's results with and without fusion.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "framework/graph/gradients.h"
#include "ops/array.h"
#include "ops/math.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {

class FusionFixture : public SessionFixture {
 protected:
  // A float32 placeholder that is fed normal random numbers.
  Output Feed(absl::string_view name, const Shape& shape) {
    feeds_.push_back({ops::Placeholder(root_.NameScope(name), DType::kFloat32, shape), shape});
    std::mt19937 random(static_cast<uint32_t>(feeds_.size()));
    std::normal_distribution<float> normal;
    Tensor values(DType::kFloat32, shape);
    std::generate_n(values.data<float>(), values.elements(), [&] { return normal(random); });
    values_.push_back(std::move(values));
    return feeds_.back().output;
  }
  // Gradients of sum(weights * y).
  std::vector<Output> GradientsOf(Output y, const std::vector<Output>& xs) {
    const Output weights = Feed("weights", y.shape());
    return belfry::ValueOf(Gradients(root_, {ops::Sum(root_, ops::Mul(root_, y, weights))}, xs));
  }
  // Checks that the float32 fetches of a fused and an unfused run agree to `tolerance`. Returns the fused plan.
  const Plan& Compare(const std::vector<Output>& fetches, float tolerance, absl::string_view devices = "cpu:1",
                      int64_t fuse_elementwise_from = kFuseFrom) {
    std::vector<std::vector<std::vector<float>>> results;
    for (const bool fuse : {false, true}) {
      step_.reset();
      Open(devices, {.fuse = fuse, .fuse_elementwise_from = fuse_elementwise_from});
      Initialize();
      step_ = Prepare(feeds_, fetches);
      EXPECT_EQ(step_->Run(values_), absl::OkStatus());
      results.emplace_back();
      for (size_t i = 0; i < fetches.size(); ++i) {
        const Tensor& tensor = step_->fetched(static_cast<int>(i));
        results.back().emplace_back(tensor.data<float>(), tensor.data<float>() + tensor.elements());
      }
    }
    for (size_t i = 0; i < fetches.size(); ++i) {
      EXPECT_THAT(results[1][i], testing::Pointwise(testing::FloatNear(tolerance), results[0][i])) << "fetch " << i;
    }
    return step_->plan();
  }

  std::vector<FeedSpec> feeds_;
  std::vector<Tensor> values_;
  std::unique_ptr<PreparedStep> step_;
};

}  // namespace belfry
