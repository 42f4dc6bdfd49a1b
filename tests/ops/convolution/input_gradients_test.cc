// A convolution's input gradient with the following addition and ReLU gradient, as one node.
#include <utility>

#include "ops/nn.h"
#include "ops/winograd/winograd_impl.h"
#include "tests/framework/compiler/fusion_fixture.h"
#include "tests/ops/convolution/geometry.h"

namespace belfry {
namespace {

class FuseInputGradients : public FusionFixture {
 protected:
  // A convolution with stride 1 that keeps the extents.
  static Attrs ConvAttrs() { return {{"padding", std::string("SAME")}}; }
  Output Convolve(Output x, absl::string_view name, int64_t channels = 16) {
    return ops::Conv2D(root_, x, Feed(name, {3, 3, x.shape()[3], channels}), {});
  }
  // Memory offsets of the first node of this op and of its input `input`.
  static std::pair<size_t, size_t> Offsets(const Plan& plan, absl::string_view op, int input) {
    for (size_t i = 0; i < plan.program.nodes.size(); ++i) {
      const ProgramNode& node = plan.program.nodes[i];
      if (node.op->name != op) continue;
      const Value from = node.inputs[input];
      return {plan.memory.outputs[i][0].offset, plan.memory.outputs[from.node][from.index].offset};
    }
    ADD_FAILURE() << "no " << op;
    return {};
  }
  // Compares x's gradient.
  const Plan& Compare(Output y, Output x) { return FusionFixture::Compare(GradientsOf(y, {x}), 1e-3f, "cpu:2"); }
};

TEST_F(FuseInputGradients, UnderAReluAlone) {
  const Output x = Feed("x", {3, 7, 8, 16});
  const Plan& plan = Compare(Convolve(ops::Relu(root_, x), "filter"), x);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInputReluGrad"), 1);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInput") + Count(plan, "ReluGrad"), 0);
}

TEST_F(FuseInputGradients, OfAResidualBlockAndTheReluBelow) {
  const Output x = Feed("x", {12, 7, 8, 16}), y = ops::Relu(root_, x);
  const Output block = Convolve(ops::Relu(root_, Convolve(y, "first")), "second");
  const Plan& plan = Compare(ops::Add(root_, block, y), x);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInputAddReluGrad"), 1);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInputReluGrad"), 1);
  for (const char* op : {"Conv2DBackpropInput", "ReluGrad", "AddN"}) EXPECT_EQ(Count(plan, op), 0) << op;
  // Winograd's algorithm, on processors that support it and for so many images, may write over the addend or, once it
  // is read, over the ReLU's output.
  const ops::ConvolutionGeometry shape =
      ops::Padded({.n = 12, .h = 7, .w = 8, .c = 16, .k = 16, .r = 3, .s = 3}, {1, 1, 1, 1});
  if (!ops::winograd::Computes(shape, ops::winograd::Pass::kBackwardData)) return;
  const auto sum = Offsets(plan, "Conv2DBackpropInputAddReluGrad", 4);
  EXPECT_EQ(sum.first, sum.second);
  const auto mask = Offsets(plan, "Conv2DBackpropInputReluGrad", 3);
  EXPECT_EQ(mask.first, mask.second);
}

TEST_F(FuseInputGradients, UnderTheNameOfTheConvolution) {
  const Output x = Feed("x", {3, 7, 8, 16});
  const Output filter = Feed("filter", {3, 3, 16, 16});
  const Plan& plan = Compare(ops::Conv2D(root_.NameScope("layer"), ops::Relu(root_, x), filter, {}), x);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInputReluGrad"), 1);
  for (const ProgramNode& node : plan.program.nodes) {
    if (node.op->name != "Conv2DBackpropInputReluGrad") continue;
    EXPECT_THAT(node.name, testing::HasSubstr("layer/"));
  }
}

TEST_F(FuseInputGradients, NotWhereTheConvolutionsPartIsFetched) {
  const Output x = Feed("x", {3, 7, 8, 16}), y = ops::Relu(root_, x), filter = Feed("filter", {3, 3, 16, 16});
  const Output dy = Feed("dy", {3, 7, 8, 16}), addend = Feed("addend", {3, 7, 8, 16});
  const Output gradient = root_.Add("Conv2DBackpropInput", {y, filter, dy}, ConvAttrs());
  const Output masked = root_.Add("ReluGrad", {ops::AddN(root_, {gradient, addend}), y});
  const Output kept = root_.Add("Conv2DBackpropInput", {y, filter, addend}, ConvAttrs());
  const Output masked_kept = root_.Add("ReluGrad", {ops::AddN(root_, {kept, dy}), y});
  Open("cpu:1");
  const auto step = Prepare(feeds_, {masked, masked_kept, kept});
  EXPECT_EQ(Count(step->plan(), "Conv2DBackpropInputAddReluGrad"), 1);
  EXPECT_EQ(Count(step->plan(), "Conv2DBackpropInput"), 1);
}

TEST_F(FuseInputGradients, NotOfAnAddendThatIsBroadcast) {
  const Output x = Feed("x", {3, 7, 8, 16}), y = ops::Relu(root_, x), filter = Feed("filter", {3, 3, 16, 16});
  const Output gradient = root_.Add("Conv2DBackpropInput", {y, filter, Feed("dy", {3, 7, 8, 16})}, ConvAttrs());
  const Output masked = root_.Add("ReluGrad", {ops::Add(root_, gradient, Feed("addend", {16})), y});
  Open("cpu:1");
  const auto step = Prepare(feeds_, {masked});
  EXPECT_EQ(Count(step->plan(), "Conv2DBackpropInputAddReluGrad"), 0);
}

TEST_F(FuseInputGradients, OfTwoConvolutionsThatReadOneTensor) {
  const Output x = Feed("x", {2, 5, 5, 5}), y = ops::Relu(root_, x);
  const Plan& plan = Compare(ops::Add(root_, Convolve(y, "left"), Convolve(y, "right")), x);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInputAddReluGrad"), 1);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInput"), 1);
}

TEST_F(FuseInputGradients, NotOfThreeAddends) {
  const Output x = Feed("x", {2, 5, 5, 16}), y = ops::Relu(root_, x);
  const Output both = ops::Add(root_, Convolve(y, "left"), Convolve(y, "right"));
  const Plan& plan = Compare(ops::Add(root_, both, y), x);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInput"), 2);
}

TEST_F(FuseInputGradients, NotWhereSomebodyElseReadsWhatLiesBetween) {
  const Output x = Feed("x", {3, 7, 8, 16}), y = ops::Relu(root_, x);
  const Plan& plan = FusionFixture::Compare(GradientsOf(Convolve(y, "filter"), {y, x}), 1e-3f);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInputReluGrad"), 0);
}

TEST_F(FuseInputGradients, NotAcrossDevices) {
  const Output x = Feed("x", {3, 7, 8, 16});
  const Output y = ops::Relu(root_.Device("/cpu:1"), x);
  const Plan& plan = Compare(Convolve(y, "filter"), x);
  EXPECT_EQ(Count(plan, "Conv2DBackpropInputReluGrad"), 0);
}

}  // namespace
}  // namespace belfry
