#include "models/networks/linear_regression.h"

#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Regression = ModelTest;

TEST_F(Regression, FollowsTheKnownLosses) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown});
  const Output y = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown});
  const LinearModel model = LinearRegression(scope_, x, y);
  EXPECT_THAT(VariableNames(), ElementsAre("weight", "bias"));
  const Node* step = Descent(model.loss, 0.01f);
  Start();
  const std::vector<Feed> feeds = {{x, Tensor::Of<float>({1, 23, 4, 5, 7, 5, 7})},
                                   {y, Tensor::Of<float>({3, 5, 7, 9, 11, 13, 15})}};
  for (double loss : {97.0, 95.79673, 94.61192}) {
    EXPECT_NEAR(Run(feeds, {model.loss}, {step})[0].scalar<float>(), loss, 1e-4);
  }
}

TEST_F(Regression, FindsThePlane) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output y = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown});
  const LinearModel model = LinearRegression(scope_, x, y);
  EXPECT_EQ(model.prediction.shape(), Shape({Shape::kUnknown}));
  const Node* step = Descent(model.loss, 0.1f);
  Start();
  const Tensor features = Random({50, 3});
  Tensor targets(DType::kFloat32, {50});
  for (int i = 0; i < 50; ++i) {
    const float* row = features.data<float>() + 3 * i;
    targets.data<float>()[i] = 2 * row[0] - row[1] + 0.5f * row[2] + 4;
  }
  for (int i = 0; i < 300; ++i) Run({{x, features}, {y, targets}}, {}, {step});
  const std::vector<double> weight = Value(model.weight);
  EXPECT_NEAR(weight[0], 2, 1e-3);
  EXPECT_NEAR(weight[1], -1, 1e-3);
  EXPECT_NEAR(weight[2], 0.5, 1e-3);
  EXPECT_NEAR(Value(model.bias)[0], 4, 1e-3);
}

TEST_F(Regression, OtherShapesAreAnError) {
  const LinearModel model = LinearRegression(scope_, Images(2, 2, 3), Labels());
  EXPECT_FALSE(model.loss.valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("not [?,2,2,3] and [?]"));
}

}  // namespace
}  // namespace belfry::models
