#include "models/networks/unet.h"

#include <algorithm>
#include <cmath>

#include "models/layers/parameters.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

class UNetTest : public ModelTest {};

TEST_F(UNetTest, HasTheParametersOfThePaper) {
  const Output logits = UNet(scope_, Images(32, 48, 1), {.classes = 1});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(logits.shape(), Shape({Shape::kUnknown, 32, 48, 1}));
  EXPECT_EQ(ParameterCount(scope_), 31'030'593);
}

// The outputs that may change with pixel (32, 32), in either direction: two convolutions reach 30 to 34; 15 to 17 of
// the pooled rows, from there 13 to 19; 6 to 9 of the next, from there 4 to 11; back at twice the size 8 to 23, then 6
// to 25; at full size 12 to 51, then 10 to 53.
TEST_F(UNetTest, LooksAroundEachPixel) {
  const Output images = Images(64, 64, 2);
  const Output logits =
      UNet(scope_, images, {.classes = 3, .width = 8, .depth = 2, .batch_norm = true, .training = false});
  Start();
  Tensor a = Random({1, 64, 64, 2}), b = a.Clone();
  b.data<float>()[(32 * 64 + 32) * 2] += 1;
  const Tensor of_a = Run({{images, a}}, {logits})[0].Clone(), of_b = Run({{images, b}}, {logits})[0].Clone();
  int inside = 0, outside = 0;
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) {
      const int64_t at = (y * 64 + x) * 3;
      // Sums of Winograd's tiles may differ by rounding where the pixel has no share.
      const bool changed = std::abs(of_a.data<float>()[at] - of_b.data<float>()[at]) > 1e-4;
      const bool reached = 10 <= std::min(y, x) && std::max(y, x) <= 53;
      (reached ? inside : outside) += changed;
    }
  }
  EXPECT_GT(inside, 25);
  EXPECT_EQ(outside, 0);
}

TEST_F(UNetTest, SaysWhatIsWrong) {
  EXPECT_FALSE(UNet(scope_, Images(24, 32, 3)).valid());
  EXPECT_THAT(graph_.status().message(), testing::HasSubstr("are multiples of 16"));
}

}  // namespace
}  // namespace belfry::models
