#include "framework/graph/gradients.h"

#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GradientsTest : public testing::Test {
 protected:
  Output Input() { return ops::Placeholder(root_, DType::kFloat64, {}); }

  // The values of the outputs for x = 3 and z = 5.
  std::vector<double> Values(const std::vector<Output>& outputs) {
    auto session = ValueOf(Session::Create(graph_, devices_));
    std::vector<Feed> feeds = {{x_, Tensor::Scalar(3.0)}, {z_, Tensor::Scalar(5.0)}};
    auto values = ValueOf(session->Run(feeds, outputs));
    std::vector<double> numbers;
    for (const Tensor& value : values) numbers.push_back(value.scalar<double>());
    return numbers;
  }
  std::vector<Output> Gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                                const GradientOptions& options = {}) {
    auto gradients = belfry::Gradients(root_, ys, xs, options);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() ? *gradients : std::vector<Output>(xs.size());
  }
  int Count(absl::string_view op) const {
    int count = 0;
    for (int id = 0; id < graph_.size(); ++id) count += graph_.node(id).op().name == op;
    return count;
  }

  const DeviceSet devices_ = DeviceSet::Open("cpu:1").value();
  OpRegistry registry_ = BuiltinOps();
  Graph graph_{registry_};
  const Scope root_{graph_};
  const Output x_ = Input(), z_ = Input();
};

TEST_F(GradientsTest, FanOutIsSummedOnce) {
  const Output y = ops::AddN(root_, {ops::Square(root_, x_), ops::Mul(root_, x_, z_), ops::Neg(root_, x_)});
  const int sums = Count("AddN");
  const auto gradients = Gradients({y}, {x_});
  EXPECT_EQ(gradients[0].node->op().name, "AddN");
  EXPECT_EQ(gradients[0].node->inputs().size(), 3u);
  EXPECT_EQ(Count("AddN"), sums + 1);
  EXPECT_THAT(Values(gradients), ElementsAre(2 * 3.0 + 5 - 1));
}

TEST_F(GradientsTest, OneUseNeedsNoSum) {
  const Output y = ops::Square(root_, x_);
  Gradients({y}, {x_});
  EXPECT_EQ(Count("AddN"), 0);
}

TEST_F(GradientsTest, AnInputUsedTwiceByOneNode) {
  EXPECT_THAT(Values(Gradients({ops::Mul(root_, x_, x_)}, {x_})), ElementsAre(6));
}

TEST_F(GradientsTest, OfWhatIsNotConnectedIsInvalid) {
  const auto gradients = Gradients({ops::Square(root_, x_)}, {z_, x_});
  EXPECT_FALSE(gradients[0].valid());
  EXPECT_TRUE(gradients[1].valid());
}

TEST_F(GradientsTest, AreNamedAfterTheForwardNode) {
  const Output y = ops::Square(root_.NameScope("tower_0").Named("loss"), x_);
  Gradients({y}, {x_});
  bool seen = false;
  for (int id = y.node->id() + 1; id < graph_.size(); ++id) {
    seen = seen || InScope(graph_.node(id).name(), "gradients/tower_0/loss_grad");
    EXPECT_TRUE(InScope(graph_.node(id).name(), "gradients")) << graph_.node(id).name();
    EXPECT_EQ(graph_.node(id).phase(), Phase::kBackward) << graph_.node(id).name();
    const bool of_loss = InScope(graph_.node(id).name(), "gradients/tower_0/loss_grad");
    EXPECT_EQ(graph_.node(id).computed_for(), of_loss ? y.node : nullptr) << graph_.node(id).name();
  }
  EXPECT_EQ(y.node->phase(), Phase::kForward);
  EXPECT_TRUE(seen);
  const Output again = Gradients({y}, {x_})[0];
  EXPECT_TRUE(InScope(again.node->name(), "gradients_1")) << again.name();
}

TEST_F(GradientsTest, StopAtStopGradient) {
  const Output y = ops::Mul(root_, ops::StopGradient(root_, x_), x_);
  EXPECT_THAT(Values(Gradients({y}, {x_})), ElementsAre(3));
  const Output cut = ops::Square(root_, ops::StopGradient(root_, x_));
  EXPECT_FALSE(Gradients({cut}, {x_})[0].valid());
}

TEST_F(GradientsTest, StopGradientsAreConstants) {
  const Output b = ops::Scale(root_, x_, 2);
  const Output y = ops::Mul(root_, x_, b);
  EXPECT_THAT(Values(Gradients({y}, {x_})), ElementsAre(12));
  EXPECT_THAT(Values(Gradients({y}, {x_}, {.stop_gradients = {b}})), ElementsAre(6));
}

// As TensorFlow documents it: partial derivatives, not total ones.
TEST_F(GradientsTest, StopGradientsMayBeXs) {
  const Output b = ops::Scale(root_, x_, 2);
  const Output y = ops::Add(root_, x_, b);
  EXPECT_THAT(Values(Gradients({y}, {x_, b})), ElementsAre(3, 1));
  EXPECT_THAT(Values(Gradients({y}, {x_, b}, {.stop_gradients = {x_, b}})), ElementsAre(1, 1));
}

TEST_F(GradientsTest, OfSeveralYsAreSummed) {
  EXPECT_THAT(Values(Gradients({ops::Square(root_, x_), ops::Mul(root_, x_, z_)}, {x_, z_})), ElementsAre(6 + 5, 3));
}

TEST_F(GradientsTest, GradYsWeighTheYs) {
  const Output w = ops::Const(root_, 10.0);
  const std::vector<Output> ys = {ops::Square(root_, x_), ops::Neg(root_, x_)};
  EXPECT_THAT(Values(Gradients(ys, {x_}, {.grad_ys = {w, z_}})), ElementsAre(60 - 5));
  const auto wrong = belfry::Gradients(root_, ys, {x_}, {.grad_ys = {w}});
  EXPECT_THAT(wrong.status().message(), HasSubstr("2 ys, but 1 grad_ys"));
}

TEST_F(GradientsTest, GradYsHaveTheShapesAndDTypesOfTheYs) {
  const Output v = ops::Stack(root_, {x_, z_});
  const auto wrong = belfry::Gradients(root_, {v}, {v}, {.grad_ys = {x_}});
  EXPECT_THAT(wrong.status().message(),
              AllOf(HasSubstr("is float64 [2], but its grad_ys '"), HasSubstr("is float64 []")));
  const Output single = ops::Const(root_, 1.0f);
  EXPECT_THAT(belfry::Gradients(root_, {x_}, {x_}, {.grad_ys = {single}}).status().message(),
              HasSubstr("is float32 []"));
}

TEST_F(GradientsTest, AnXThatIsAYHasItsSeed) {
  EXPECT_THAT(Values(Gradients({x_}, {x_})), ElementsAre(1));
  EXPECT_THAT(Values(Gradients({x_, ops::Square(root_, x_)}, {x_})), ElementsAre(1 + 6));
  const Output y = ops::Square(root_, x_), z = ops::Square(root_, y);
  // z = y^2, y = x^2: dz/dy = 2y, and the seed of y itself.
  EXPECT_THAT(Values(Gradients({z, y}, {y, x_})), ElementsAre(2 * 9 + 1, (2 * 9 + 1) * 6));
}

TEST_F(GradientsTest, OfAnIntermediateAndWhatIsBehindIt) {
  const Output y = ops::Square(root_, x_);
  EXPECT_THAT(Values(Gradients({ops::Square(root_, y)}, {y, x_})), ElementsAre(18, 108));
}

TEST_F(GradientsTest, OfSecondOrder) {
  const Output y = ops::Mul(root_, ops::Square(root_, x_), ops::Mul(root_, x_, z_));  // x^3 z
  const Output first = Gradients({y}, {x_})[0];
  const auto second = Gradients({first}, {x_, z_});
  EXPECT_THAT(Values({first, second[0], second[1]}), ElementsAre(3 * 9 * 5, 6 * 3 * 5, 3 * 9));
}

TEST_F(GradientsTest, GoThroughOneOutputOfSeveral) {
  const Output v = ops::Stack(root_, {x_, z_});
  const std::vector<Output> parts = ops::Unstack(root_, v);
  EXPECT_THAT(Values(Gradients({ops::Square(root_, parts[1])}, {x_, z_})), ElementsAre(0, 10));
}

TEST_F(GradientsTest, FailAtAnOpWithoutAGradient) {
  registry_.Add({.name = "Mystery",
                 .inputs = {{.name = "x"}},
                 .outputs = {{.name = "y"}},
                 .types = {{"T", kFloatTypes}},
                 .shape = [](const ShapeArgs& args) -> absl::StatusOr<std::vector<Shape>> {
                   return std::vector<Shape>{args.inputs[0]};
                 }});
  const int line = __LINE__ + 1;
  const Output strange = OpScope(root_.Named("strange")).Add("Mystery", {ops::Square(root_, x_)});
  const Output loss = ops::Neg(root_.Named("loss"), ops::Scale(root_.Named("scaled"), strange, 2));
  const auto gradients = belfry::Gradients(root_, {loss}, {x_});
  ASSERT_EQ(gradients.status().code(), absl::StatusCode::kNotFound);
  const std::string message(gradients.status().message());
  EXPECT_THAT(message, HasSubstr("No gradient defined for operation 'strange' (op type: Mystery)"));
  EXPECT_THAT(message, HasSubstr("the path from the loss is loss <- scaled <- strange"));
  EXPECT_THAT(message, HasSubstr("gradients_test.cc:" + std::to_string(line)));
  // It does not matter on a path that leads to no x.
  EXPECT_TRUE(belfry::Gradients(root_, {ops::Mul(root_, loss, z_)}, {z_}).ok());
}

TEST_F(GradientsTest, FailIfEveryWayIsCut) {
  const Output rounded = ops::Cast(root_.Named("rounded"), x_, DType::kInt32);
  const Output one_hot = ops::OneHot(root_.Named("picked"), rounded, 4, {.dtype = DType::kFloat64});
  const Output loss = ops::Sum(root_.Named("loss"), one_hot);
  const auto gradients = belfry::Gradients(root_, {loss}, {x_});
  ASSERT_EQ(gradients.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(gradients.status().message());
  EXPECT_THAT(message, HasSubstr("No gradient reaches 'Placeholder'"));
  EXPECT_THAT(message, HasSubstr("'picked' (op type: OneHot)"));
  EXPECT_THAT(message, HasSubstr("loss <- picked"));
  // Another path is enough.
  EXPECT_THAT(Values(Gradients({ops::Add(root_, loss, x_)}, {x_})), ElementsAre(1));
}

TEST_F(GradientsTest, FailForWhatIsNotFloatingPoint) {
  const Output i = ops::Const(root_, 1);
  EXPECT_THAT(belfry::Gradients(root_, {i}, {i}).status().message(), HasSubstr("only floats"));
}

TEST_F(GradientsTest, FailForOutputsOfNoGraphOrAnother) {
  Graph other(BuiltinOps());
  const Output foreign = ops::Const(Scope(other), 1.0);
  const Output y = ops::Square(root_, x_);
  EXPECT_FALSE(belfry::Gradients(root_, {y}, {foreign}).ok());
  EXPECT_FALSE(belfry::Gradients(root_, {foreign}, {x_}).ok());
  EXPECT_FALSE(belfry::Gradients(root_, {y}, {Output()}).ok());
  EXPECT_FALSE(belfry::Gradients(root_, {Output()}, {x_}).ok());
}

TEST_F(GradientsTest, FailForAGradientOfTheWrongShape) {
  registry_.Add(
      {.name = "Liar",
       .inputs = {{.name = "x"}},
       .outputs = {{.name = "y"}},
       .types = {{"T", kFloatTypes}},
       .shape = [](const ShapeArgs&) -> absl::StatusOr<std::vector<Shape>> { return std::vector<Shape>(1); },
       .gradient = [](const Scope&, const Node&, absl::Span<const Output> dy) { return std::vector<Output>{dy[0]}; }});
  const Output v = ops::Stack(root_, {x_, z_});
  const auto gradients = belfry::Gradients(root_, {root_.Named("liar").Add("Liar", {v})}, {x_});
  EXPECT_THAT(gradients.status().message(),
              HasSubstr("Incompatible shapes or dtypes between op input and calculated input gradient: input 0 of "
                        "'liar' (op type: Liar) is float64 [2], its gradient float64 []"));
}

TEST_F(GradientsTest, AreFoundForManyUnconnectedXs) {
  std::vector<Output> xs;
  for (int i = 0; i < 2000; ++i) xs.push_back(ops::StopGradient(root_, Input()));
  Output y = ops::StopGradient(root_, ops::AddN(root_, xs));
  for (int i = 0; i < 2000; ++i) y = ops::Neg(root_, y);
  for (const Output& gradient : Gradients({y}, xs)) EXPECT_FALSE(gradient.valid());
}

}  // namespace
}  // namespace belfry
