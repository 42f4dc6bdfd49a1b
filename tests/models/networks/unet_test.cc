#include "models/networks/unet.h"

#include <gmock/gmock.h>

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

// A pixel is seen from as far as the smallest images carry it, and each output is at its place.
TEST_F(UNetTest, LooksAroundEachPixel) {
  const Output images = Images(32, 32, 2);
  const Output logits =
      UNet(scope_, images, {.classes = 3, .width = 4, .depth = 2, .batch_norm = true, .training = false});
  Start();
  Tensor a = Random({1, 32, 32, 2}), b = a.Clone();
  b.data<float>()[(16 * 32 + 16) * 2] += 1;
  const Tensor of_a = Run({{images, a}}, {logits})[0].Clone(), of_b = Run({{images, b}}, {logits})[0].Clone();
  int near = 0, far = 0;
  for (int y = 0; y < 32; ++y) {
    for (int x = 0; x < 32; ++x) {
      const int64_t at = (y * 32 + x) * 3;
      const bool changed = of_a.data<float>()[at] != of_b.data<float>()[at];
      if (std::abs(y - 16) <= 1 && std::abs(x - 16) <= 1) near += changed;
      if (y == 0 || x == 0) far += changed;
    }
  }
  EXPECT_EQ(near, 9);
  EXPECT_LT(far, 63);
}

TEST_F(UNetTest, SaysWhatIsWrong) {
  EXPECT_FALSE(UNet(scope_, Images(24, 32, 3)).valid());
  EXPECT_THAT(std::string(graph_.status().message()), testing::HasSubstr("are multiples of 16"));
}

}  // namespace
}  // namespace belfry::models
