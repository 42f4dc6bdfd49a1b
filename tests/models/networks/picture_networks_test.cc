#include "models/networks/pictures/picture_networks.h"

#include <algorithm>
#include <cmath>

#include "models/layers/losses.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

class PictureNetworksTest : public ModelTest, public testing::WithParamInterface<PictureNetwork> {};

TEST_P(PictureNetworksTest, HasThePublishedParameters) {
  const PictureNetwork& network = GetParam();
  const Output logits = network.build(scope_, Images(network.size, network.size, 3), {});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(logits.shape(), Shape({Shape::kUnknown, 1000}));
  int64_t parameters = 0;
  for (const Variable& variable : graph_.variables()) {
    if (variable.trainable()) parameters += variable.shape().elements();
  }
  EXPECT_EQ(parameters, network.parameters);
}

// Before training no class is much likelier than another. Of ten classes, the mean loss over all labels is log(10) for
// equal logits. For normal logits with a variance of 1, which Glorot's weights make of features with a mean square of
// 1/2, it is 0.4 more on average; the mean of four images, which share the weights, exceeds that by 1.1 about once in a
// million.
TEST_P(PictureNetworksTest, BeginsWithoutAnOpinion) {
  const PictureNetwork& network = GetParam();
  constexpr int64_t kBatch = 4;
  const int64_t size = std::max<int64_t>(64, network.smallest);
  const Output images = Images(size, size, 3);
  const Output logits = network.build(scope_, images, {.classes = 10, .training = true, .dropout = 0});
  Start();
  const std::vector<Tensor> values = Run({{images, Random({kBatch, size, size, 3})}}, {logits});
  ASSERT_EQ(values[0].shape(), Shape({kBatch, 10}));
  double mean = 0;
  for (int64_t row = 0; row < kBatch; ++row) {
    double sum = 0, loss = 0;
    const float* const at = values[0].data<float>() + 10 * row;
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(std::isfinite(at[i]));
      sum += std::exp(at[i]);
    }
    for (int i = 0; i < 10; ++i) loss += (std::log(sum) - at[i]) / 10;
    EXPECT_GT(loss, std::log(10) - 1e-3);
    mean += loss / kBatch;
  }
  EXPECT_LT(mean, std::log(10) + 1.5);
}

INSTANTIATE_TEST_SUITE_P(All, PictureNetworksTest,
                         testing::ValuesIn(PictureNetworks().begin(), PictureNetworks().end()),
                         [](const auto& info) { return std::string(info.param.name); });

class PictureNetworkErrors : public ModelTest {};

TEST_F(PictureNetworkErrors, SaysWhatIsWrong) {
  EXPECT_EQ(FindPictureNetwork("resnet51"), nullptr);
  ASSERT_NE(FindPictureNetwork("vit_s16"), nullptr);
  EXPECT_FALSE(DeepResNet(scope_, Images(32, 32, 3), 51).valid());
  EXPECT_THAT(graph_.status().message(), testing::HasSubstr("has depth 51; expected 18, 34"));
}

TEST_F(PictureNetworkErrors, TransformersTakeWholePatches) {
  EXPECT_FALSE(VisionTransformerS16(scope_, Images(40, 32, 3)).valid());
  EXPECT_THAT(graph_.status().message(), testing::HasSubstr("a multiple of 16"));
}

}  // namespace
}  // namespace belfry::models
