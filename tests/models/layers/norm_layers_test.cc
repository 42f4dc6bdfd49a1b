#include "models/layers/norm_layers.h"

#include <vector>

#include "models/layers/embedding.h"
#include "models/layers/layers.h"
#include "models/layers/parameters.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using NormLayers = ModelTest;
using Embeddings = ModelTest;

TEST_F(NormLayers, NormaliseEachRow) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 5, 8});
  const Output layer = LayerNorm(scope_, "ln", x), rms = RmsNorm(scope_, "rms", x);
  const Output squares = ops::Mean(scope_, ops::Square(scope_, rms), -1), mean = ops::Mean(scope_, layer, -1);
  const Output variance = ops::Mean(scope_, ops::Square(scope_, layer), -1);
  EXPECT_EQ(layer.shape(), x.shape());
  EXPECT_EQ(ParameterCount(scope_), 24);
  Start();
  const auto values = Run({{x, Random({3, 5, 8})}}, {mean, variance, squares});
  EXPECT_THAT(values[0].ToDoubles(), Each(::testing::DoubleNear(0, 1e-5)));
  EXPECT_THAT(values[1].ToDoubles(), Each(::testing::DoubleNear(1, 1e-3)));
  EXPECT_THAT(values[2].ToDoubles(), Each(::testing::DoubleNear(1, 1e-3)));
}

TEST_F(NormLayers, GroupNormNormalisesGroupsOfAnImage) {
  const Output x = Images(4, 3, 6), y = GroupNorm(scope_, "norm", x, 2);
  // [N, H, W, 2 groups, 3]
  const Output groups = ops::Reshape(scope_, y, {-1, 4, 3, 2, 3});
  const Output mean = ops::Mean(scope_, groups, {1, 2, 4});
  Start();
  EXPECT_THAT(Run({{x, Random({2, 4, 3, 6})}}, {mean})[0].ToDoubles(), Each(::testing::DoubleNear(0, 1e-5)));
}

TEST_F(NormLayers, KeepTheirParametersInFloat32) {
  const Output x = ops::Placeholder(scope_, DType::kBFloat16, {Shape::kUnknown, 8});
  const std::vector<Output> results = {LayerNorm(scope_, "a", x), RmsNorm(scope_, "b", x),
                                       GroupNorm(scope_, "c", x, 4)};
  for (const Output& y : results) {
    ASSERT_TRUE(y.valid()) << graph_.status();
    EXPECT_EQ(y.dtype(), DType::kBFloat16);
  }
  EXPECT_EQ(Find("a/gamma").dtype(), DType::kFloat32);
  EXPECT_EQ(Find("a/beta").dtype(), DType::kFloat32);
  EXPECT_EQ(Find("b/gamma").dtype(), DType::kFloat32);
}

TEST_F(NormLayers, NameTheLayerThatCannotBeBuilt) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {2, 6});
  EXPECT_FALSE(GroupNorm(scope_, "norm", x, 4).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("GroupNorm 'norm' cannot split 6 channels into 4"));
}

TEST_F(Embeddings, AreRowsOfTheTable) {
  const Output ids = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown, 2});
  const Output y = Embedding(scope_, "words", ids, 7, 3),
               narrow = Embedding(scope_, "narrow", ids, 7, 3, {.dtype = DType::kBFloat16});
  EXPECT_EQ(y.shape(), Shape({Shape::kUnknown, 2, 3}));
  EXPECT_EQ(narrow.dtype(), DType::kBFloat16);
  EXPECT_EQ(Find("narrow/table").dtype(), DType::kFloat32);
  Start();
  const std::vector<double> table = Value(Find("words/table"));
  const std::vector<double> rows = Run({{ids, Tensor::Of<int32_t>({6, 0}, {1, 2})}}, {y})[0].ToDoubles();
  EXPECT_THAT(rows, ElementsAre(table[18], table[19], table[20], table[0], table[1], table[2]));
}

TEST_F(Embeddings, RefuseAnEmptyTable) {
  const Output ids = ops::Placeholder(scope_, DType::kInt32, {2});
  EXPECT_FALSE(Embedding(scope_, "words", ids, 0, 3).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("Embedding 'words' has 0 rows of width 3"));
}

}  // namespace
}  // namespace belfry::models
