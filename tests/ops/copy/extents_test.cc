#include "ops/extents.h"

#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/random.h"
#include "tests/main/testing.h"

namespace belfry::ops {
namespace {

using ::testing::HasSubstr;

class ExtentsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<Tensor>> Run(Output fed, const Tensor& value, Output fetched) {
    DeviceSet devices = DeviceSet::Open("cpu:1").value();
    const auto session = Session::Create(graph_, devices).value();
    return session->Run({{fed, value}}, {fetched});
  }

  Graph graph_{BuiltinOps()};
  Scope scope_{graph_};
};

TEST_F(ExtentsTest, AreNumbersOnceTheyAreKnown) {
  const Output x = Placeholder(scope_, DType::kFloat32, {-1, 6});
  EXPECT_EQ(Extent::Of(x, 0).size(), Shape::kUnknown);
  EXPECT_EQ((Extent::Of(x, -1) * 3 + 2).size(), 20);
  EXPECT_EQ(((Extent::Of(x, 1) - 2) / 4 * 5).size(), 5);
  EXPECT_EQ((Extent(6) / 2 * 5 - 1).size(), 14);
  EXPECT_EQ(Reshape(scope_, x, {Extent::Of(x, 0), Extent::Of(x, 1) / 2, 2}).shape(), Shape({-1, 3, 2}));
  EXPECT_EQ(Reshape(scope_, Fill(scope_, {6}, 0), {Extent::Of(x, 1) / 2, 2}).node->op().name, "Reshape");
}

TEST_F(ExtentsTest, AreKnownWhenAPlanIsMade) {
  const Output x = Placeholder(scope_, DType::kFloat32, {-1, -1, 6});
  const Extent n = Extent::Of(x, 0), t = Extent::Of(x, 1);
  const Output y = Reshape(scope_, Square(scope_, Reshape(scope_, x, {n, t, 2, -1})), {t, n, 6});
  EXPECT_EQ(y.shape(), Shape({-1, -1, 6}));
  ASSERT_OK_AND_ASSIGN(const auto result, Run(x, Tensor(DType::kFloat32, {3, 5, 6}), y));
  EXPECT_EQ(result[0].shape(), Shape({5, 3, 6}));
}

TEST_F(ExtentsTest, ThatCannotBeAreErrorsOfThePlan) {
  const Output x = Placeholder(scope_, DType::kFloat32, {-1});
  const Output y = Reshape(scope_, x, {Extent::Of(x, 0) / 2, 2});
  const auto result = Run(x, Tensor(DType::kFloat32, {5}), y);
  EXPECT_THAT(result.status().message(), HasSubstr("the extent 5 cannot be divided by 2"));
}

TEST_F(ExtentsTest, OfAnAxisThatIsMissingAreAnError) {
  const Output x = Placeholder(scope_, DType::kFloat32, {-1});
  EXPECT_FALSE(Reshape(scope_, x, {Extent::Of(x, 1), 2}).valid());
  EXPECT_FALSE(graph_.status().ok());
}

TEST_F(ExtentsTest, TakeNoSecondOneToInfer) {
  const Output x = Placeholder(scope_, DType::kFloat32, {-1});
  EXPECT_FALSE(Reshape(scope_, x, {Extent::Of(x, 0), -1, -1}).valid());
  EXPECT_THAT(graph_.status().message(), HasSubstr("only Reshape infers one"));
}

TEST_F(ExtentsTest, OfNoiseMayBeThoseOfTheBatch) {
  const Output x = Placeholder(scope_, DType::kFloat32, {-1, 3});
  const Output noise = RandomNormal(scope_, {Extent::Of(x, 0), 64});
  ASSERT_OK_AND_ASSIGN(const auto result, Run(x, Tensor(DType::kFloat32, {7, 3}), noise));
  EXPECT_EQ(result[0].shape(), Shape({7, 64}));
}

TEST_F(ExtentsTest, NoiseOfTowersIsPartOfThatOfTheBatch) {
  const Output x = Placeholder(scope_, DType::kFloat32, {-1, 3});
  const Output first = Placeholder(scope_, DType::kInt64, {});
  const Scope tower = scope_.NameScope("tower_0").RandomCounters(Const(scope_, int64_t{5}), first);
  const Output noise = RandomNormal(tower, {Extent::Of(x, 0), 7});
  DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto session = Session::Create(graph_, devices).value();
  const auto rows = [&](int64_t begin, int64_t n) {
    const auto result = session->Run({{x, Tensor(DType::kFloat32, {n, 3})}, {first, Tensor::Scalar(begin)}}, {noise});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? (*result)[0].ToDoubles() : std::vector<double>();
  };
  std::vector<double> joined = rows(0, 2);
  for (const double z : rows(2, 5)) joined.push_back(z);
  EXPECT_EQ(joined, rows(0, 7));
}

}  // namespace
}  // namespace belfry::ops
