// Compares plans for GPUs with and without rewrites.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "tests/framework/runtime/gpu_fusion_fixture.h"

namespace belfry {

class GpuRewrites : public GpuFusion {
 protected:
  Output Floats(const Shape& shape) { return Feed(DType::kFloat32, shape, /*special=*/false); }
  Output Halves(const Shape& shape) { return Feed(DType::kFloat16, shape, /*special=*/false); }

  // Checks that fused and unfused results agree to `tolerance`, and returns the ops of the fused plan.
  std::vector<std::string> CompareTo(double tolerance, const std::vector<Output>& fetches,
                                     const std::vector<const Node*>& targets = {}) {
    std::vector<std::string> fused, apart;
    const std::vector<Tensor> actual = Run(fetches, targets, true, &fused);
    const std::vector<Tensor> expected = Run(fetches, targets, false, &apart);
    EXPECT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
      EXPECT_THAT(actual[i].ToDoubles(), testing::Pointwise(testing::DoubleNear(tolerance), expected[i].ToDoubles()))
          << "result " << i;
    }
    return fused;
  }
  static int64_t Count(const std::vector<std::string>& ops, const std::string& op) { return absl::c_count(ops, op); }
};

}  // namespace belfry
