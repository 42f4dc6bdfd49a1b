// A ReLU's gradient under a maximum pool, computed before the pool's.
#include <limits>
#include <random>

#include "framework/graph/gradients.h"
#include "ops/nn.h"
#include "tests/framework/base/same_bits.h"
#include "tests/framework/runtime/session_fixture.h"

namespace belfry {
namespace {

struct PoolCase {
  Shape images;
  ops::PoolOptions pool;
};

const PoolCase kPools[] = {
    {{2, 6, 6, 3}, {}},
    {{1, 24, 24, 17}, {.height = 3, .width = 3, .padding = ops::Padding::Same()}},
    {{3, 7, 5, 1}, {.height = 3, .width = 2, .stride_h = 2, .stride_w = 1}},
    {{2, 5, 5, 4}, {.height = 3, .width = 3, .stride_h = 1, .stride_w = 1, .padding = ops::Padding::Same()}},
    {{1, 1, 1, 1}, {.height = 1, .width = 1, .stride_h = 1, .stride_w = 1}},
};

class PoolMasksTest : public SessionFixture, public testing::WithParamInterface<std::tuple<DType, int>> {
 protected:
  void SetUp() override {
    dtype_ = std::get<0>(GetParam());
    pool_ = kPools[std::get<1>(GetParam())];
    x_ = ops::Placeholder(root_, DType::kFloat32, pool_.images);
    scale_ = ops::Placeholder(root_, DType::kFloat32, {});
  }

  // The gradient of sum(scale * pool(activation(x))^2), where x holds numbers, zeros of both signs, NaN and infinity.
  // Checks that its plan has one op `mask`, with `masked` elements.
  std::vector<Tensor> GradientOf(const std::function<Output(Output)>& activation, bool fuse, const char* mask,
                                 int64_t masked, bool fetch_inner = false) {
    const Output x = ops::Cast(root_, x_, dtype_);
    const Output y = activation(x);
    const Output pooled = ops::Cast(root_, ops::MaxPool(root_, y, pool_.pool), DType::kFloat32);
    const Output loss = ops::Sum(root_, ops::Mul(root_, ops::Square(root_, pooled), scale_));
    auto gradients = belfry::ValueOf(Gradients(root_, {loss}, {x, y}));
    std::vector<Output> fetches = {gradients[0]};
    if (fetch_inner) fetches.push_back(gradients[1]);
    Open("cpu:1", {.fuse = fuse});
    const auto step = Prepare({{x_, pool_.images}, {scale_, {}}}, fetches);
    std::vector<int64_t> masks;
    for (const ProgramNode& node : step->plan().program.nodes) {
      if (node.op->name == mask) masks.push_back(node.outputs[0].shape.elements());
    }
    EXPECT_THAT(masks, testing::ElementsAre(masked));
    const Tensor values = Values();
    std::vector<Tensor> results;
    for (float scale : {1.f, std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(step->Run({values, Tensor::Of<float>({scale}, {})}), absl::OkStatus());
      for (size_t i = 0; i < fetches.size(); ++i) results.push_back(step->fetched(static_cast<int>(i)).Clone());
    }
    return results;
  }

  // Input values, the same for every gradient of a test.
  Tensor Values() const {
    Tensor values(DType::kFloat32, pool_.images);
    std::mt19937 random(TestSeed());
    std::normal_distribution<float> normal;
    constexpr float kSpecial[] = {0.f, -0.f, std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
    for (int64_t i = 0; i < values.elements(); ++i) {
      values.data<float>()[i] = random() % 4 == 0 ? kSpecial[random() % std::size(kSpecial)] : 4 * normal(random);
    }
    return values;
  }

  int64_t Pooled() { return ops::MaxPool(root_, ops::Cast(root_, x_, dtype_), pool_.pool).shape().elements(); }
  static void ExpectSame(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(SameBits(a[i], b[i])) << i;
  }

  DType dtype_;
  PoolCase pool_;
  Output x_, scale_;
};

TEST_P(PoolMasksTest, AMaskMovesAndTheBitsStay) {
  const auto relu = [&](Output x) { return ops::Relu(root_, x); };
  const auto relu6 = [&](Output x) { return ops::Relu6(root_, x); };
  const int64_t all = pool_.images.elements();
  ExpectSame(GradientOf(relu, true, "ReluGrad", Pooled()), GradientOf(relu, false, "ReluGrad", all));
  ExpectSame(GradientOf(relu6, true, "Relu6Grad", Pooled()), GradientOf(relu6, false, "Relu6Grad", all));
}

TEST_P(PoolMasksTest, WhatIsNoMaskStays) {
  const auto tanh = [&](Output x) { return ops::Tanh(root_, x); };
  ExpectSame(GradientOf(tanh, true, "TanhGrad", pool_.images.elements()),
             GradientOf(tanh, false, "TanhGrad", pool_.images.elements()));
}

TEST_P(PoolMasksTest, APoolGradientThatIsSeenStays) {
  const auto relu = [&](Output x) { return ops::Relu(root_, x); };
  const int64_t all = pool_.images.elements();
  ExpectSame(GradientOf(relu, true, "ReluGrad", all, true), GradientOf(relu, false, "ReluGrad", all, true));
}

INSTANTIATE_TEST_SUITE_P(Pools, PoolMasksTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                                          DType::kFloat16),
                                          testing::Range(0, static_cast<int>(std::size(kPools)))));

// The ReLU's output is as large as everything else together, and only the pool reads it.
TEST_F(SessionFixture, ThePoolsInputIsNotKeptForTheBackwardPass) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {4, 32, 32, 8});
  const Output pooled = ops::MaxPool(root_, ops::Relu(root_, ops::Square(root_, x)));
  ASSERT_OK_AND_ASSIGN(auto gradients, Gradients(root_, {ops::Sum(root_, ops::Square(root_, pooled))}, {x}));
  int64_t arena[2];
  for (bool fuse : {false, true}) {
    Open("cpu:1", {.fuse = fuse, .fuse_elementwise_from = std::numeric_limits<int64_t>::max()});
    arena[fuse] = Prepare({{x, x.shape()}}, {gradients[0]})->plan().memory.arena_bytes[0];
  }
  EXPECT_LT(arena[true], arena[false]);
}

TEST_F(SessionFixture, AMaskOfAnotherTensorStays) {
  const Output x = ops::Placeholder(root_, DType::kFloat32, {1, 4, 4, 1});
  const Output other = ops::Placeholder(root_, DType::kFloat32, {1, 4, 4, 1});
  const Output y = ops::Relu(root_, x);
  ASSERT_OK_AND_ASSIGN(auto inner, Gradients(root_, {ops::Sum(root_, ops::MaxPool(root_, y))}, {y}));
  const Output masked = root_.Add("ReluGrad", {inner[0], other});
  Open("cpu:1");
  const auto step = Prepare({{x, x.shape()}, {other, x.shape()}}, {masked});
  const Tensor ones = Tensor::Of<float>(std::vector<float>(16, 1.f), {1, 4, 4, 1});
  ASSERT_TRUE(step->Run({ones, Tensor::Zeros(DType::kFloat32, {1, 4, 4, 1})}).ok());
  EXPECT_THAT(step->fetched(0).ToDoubles(), testing::Each(0));
}

}  // namespace
}  // namespace belfry
