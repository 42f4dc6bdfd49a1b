// Inputs of GPU kernels that the cases do not cover: infinities, NaN, ties, labels out of range, large means.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/training.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/main/testing.h"
#include "tests/ops/harness/evaluate.h"
#include "tests/ops/harness/special_values.h"

namespace belfry::ops {
namespace {

using harness::NodeRun;

class GpuNnTest : public testing::Test {
 protected:
  void SetUp() override { ASSIGN_OR_SKIP(devices_, OpenTestGpus(1)); }

  Scope scope() const { return Scope(graph_); }
  Output Row(const std::vector<float>& x) const {
    return Const(scope(), Tensor::Of<float>(x, {static_cast<int64_t>(x.size())}));
  }
  // The rows, each extended to `n` elements by its last one.
  Output Matrix(const std::vector<std::vector<float>>& rows, int64_t n) const {
    Tensor x(DType::kFloat32, {static_cast<int64_t>(rows.size()), n});
    for (int64_t i = 0; i < x.elements(); ++i) {
      const std::vector<float>& row = rows[static_cast<size_t>(i / n)];
      x.data<float>()[i] = row[std::min<size_t>(static_cast<size_t>(i % n), row.size() - 1)];
    }
    return Const(scope(), x);
  }

  NodeRun RunOf(const Output& y) const {
    std::vector<NodeRun> trace;
    EXPECT_EQ(harness::Evaluate({y}, {}, &trace).status(), absl::OkStatus());
    for (NodeRun& run : trace) {
      if (run.node == y.node) return run;
    }
    ADD_FAILURE() << "the node did not run";
    return {};
  }
  std::vector<Tensor> OnGpu(const NodeRun& run) const {
    return ValueOf(harness::RunKernel(run, {}, &devices_.device(1)));
  }

  // Compares all outputs of y's node with the CPU's: the same NaN and infinities, other numbers within `tolerance`.
  void ExpectAgrees(const Output& y, double tolerance = 1e-5) const {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    const NodeRun run = RunOf(y);
    const std::vector<Tensor> outputs = OnGpu(run);
    ASSERT_EQ(outputs.size(), run.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<double> actual = outputs[i].ToDoubles(), expected = run.outputs[i].ToDoubles();
      for (size_t k = 0; k < expected.size(); ++k) {
        const std::string where =
            absl::StrCat(run.node->op().name, ", output ", i, "[", k, "]: ", actual[k], " and not ", expected[k]);
        if (std::isfinite(expected[k])) {
          EXPECT_NEAR(actual[k], expected[k], tolerance * std::max(1.0, std::abs(expected[k]))) << where;
        } else {
          EXPECT_TRUE(std::isnan(expected[k]) ? std::isnan(actual[k]) : actual[k] == expected[k]) << where;
        }
      }
    }
  }

  mutable Graph graph_{BuiltinOps()};
  DeviceSet devices_;
};

TEST_F(GpuNnTest, ActivationsOfInfinitiesAndNaN) {
  const Output x = Row({-kInfinity, kInfinity, kNaN, 0, -0.0f, 100, -100, 1e30f, -1e30f, 6});
  const Output dy = Row({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  for (const char* op : {"Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Gelu", "Silu", "Softplus"}) {
    ExpectAgrees(scope().Add(op, {x}));
  }
  for (const char* op : {"ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "GeluGrad", "SiluGrad"}) {
    ExpectAgrees(scope().Add(op, {dy, x}));
  }
  ExpectAgrees(Gelu(scope(), x, /*approximate=*/true));
  ExpectAgrees(scope().Add("GeluGrad", {dy, x}, {{"approximate", true}}));
  ExpectAgrees(scope().Add("SoftplusGrad", {dy, Softplus(scope(), x)}));
}

// Large enough for numbers whose upper half is the threshold's, of which both some are kept and some are not.
TEST_F(GpuNnTest, DropoutOfManyNumbers) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const double rate : {0x1.8p-16, 0.4}) {
      for (const int64_t size : {8192, 8191}) {
        ExpectAgrees(Dropout(scope(), Fill(scope(), {64, size}, 1, dtype), rate), 0);
      }
    }
  }
}

TEST_F(GpuNnTest, SoftmaxOfInfinitiesAndNaN) {
  for (const int64_t n : {3, 4, 40, 2000}) {
    const Output x = Matrix({{1, 2, 3},
                             {-kInfinity},
                             {-kInfinity, 0, -kInfinity},
                             {-kInfinity, -kInfinity, -kInfinity, 5},
                             {kInfinity, 1, 2},
                             {0, 1, kInfinity},
                             {kInfinity},
                             {kNaN, 1, 2},
                             {-kInfinity, 1, kNaN},
                             {kNaN},
                             {1e30f, 1e30f, -1e30f},
                             {0, -1000}},
                            n);
    for (const double temperature : {1.0, 0.1}) {
      ExpectAgrees(Softmax(scope(), x, {.temperature = temperature}));
      ExpectAgrees(LogSoftmax(scope(), x, {.temperature = temperature}));
      ExpectAgrees(Softmax(scope(), x, {.axis = 0, .temperature = temperature}));
    }
  }
}

TEST_F(GpuNnTest, CrossEntropyOfInfinitiesAndNaN) {
  const std::vector<std::vector<float>> logits = {{1, 2, 3},          {-kInfinity, 0, 0}, {0, -kInfinity, 0},
                                                  {-kInfinity},       {kInfinity, 1, 2},  {kNaN, 1, 2},
                                                  {1e30f, 0, -1e30f}, {0, -1000, 0}};
  const std::vector<std::vector<float>> labels(logits.size(), {0, 1, 0});
  const Output indices = Const(scope(), Tensor::Of<int32_t>({0, 1, 1, 0, 0, 2, 0, 1}, {8}));
  for (const int64_t n : {3, 40, 2000}) {
    for (const double smoothing : {0.0, 0.1}) {
      const double tolerance = n < 100 ? 1e-5 : 1e-4;
      ExpectAgrees(SparseSoftmaxCrossEntropy(scope(), Matrix(logits, n), indices, {.label_smoothing = smoothing}),
                   tolerance);
      ExpectAgrees(SoftmaxCrossEntropy(scope(), Matrix(logits, n), Matrix(labels, n), {.label_smoothing = smoothing}),
                   tolerance);
    }
  }
  const Output dloss = Row({kInfinity, kNaN, 2, -kInfinity, 3, 4, kNaN, 5});
  for (const int64_t n : {3, 40, 2000}) {
    for (const int64_t ignored : {0, 1, 2, -100}) {
      const Output loss = SparseSoftmaxCrossEntropy(scope(), Matrix(logits, n), indices,
                                                    {.label_smoothing = 0.1, .ignore_label = ignored});
      ExpectAgrees(loss, n < 100 ? 1e-5 : 1e-4);
      ExpectAgrees(scope().Add("SparseCrossEntropyGrad", {dloss, loss.node->output(1), indices},
                               {{"ignore_label", std::vector<int64_t>{ignored}}}),
                   1e-4);
    }
  }
  const Output x = Row({-kInfinity, kInfinity, kNaN, 0, 1000, -1000}), t = Row({0.5, 0.5, 0.5, 1, 0, 1});
  ExpectAgrees(SigmoidCrossEntropy(scope(), x, t));
  ExpectAgrees(scope().Add("SigmoidCrossEntropyGrad", {Row({1, 2, 3, 4, 5, 6}), x, t}));
}

TEST_F(GpuNnTest, LabelsOutOfRangeGiveNaN) {
  for (const int64_t n : {3, 40}) {
    const Output labels = Const(scope(), Tensor::Of<int64_t>({0, 1, 2}, {3}));
    NodeRun run = RunOf(SparseSoftmaxCrossEntropy(scope(), Matrix({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, n), labels,
                                                  {.label_smoothing = 0.1}));
    run.inputs[1] = Tensor::Of<int64_t>({-1, 1, n}, {3});
    const std::vector<Tensor> outputs = OnGpu(run);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<double> actual = outputs[i].ToDoubles(), expected = run.outputs[i].ToDoubles();
      const size_t row = actual.size() / 3;
      for (size_t k = 0; k < actual.size(); ++k) {
        if (k / row == 1) {
          EXPECT_NEAR(actual[k], expected[k], 1e-5);
        } else {
          EXPECT_TRUE(std::isnan(actual[k]));
        }
      }
    }
  }
}

TEST_F(GpuNnTest, IgnoredLabelsAreNotOutOfRange) {
  for (const int64_t n : {3, 40, 2000}) {
    for (const int64_t ignored : {int64_t{-1}, n}) {
      const Output labels = Const(scope(), Tensor::Of<int64_t>({ignored, 1, ignored}, {3}));
      const Output logits = Matrix({{kNaN, 2, 3}, {4, 5, 6}, {kInfinity, 8, 9}}, n);
      ExpectAgrees(SparseSoftmaxCrossEntropy(scope(), logits, labels, {.ignore_label = ignored}));
      NodeRun run = RunOf(SparseSoftmaxCrossEntropy(scope(), logits, labels, {.ignore_label = ignored}));
      run.inputs[1] = Tensor::Of<int64_t>({ignored, 1, -2}, {3});
      const std::vector<Tensor> outputs = OnGpu(run);
      ASSERT_EQ(outputs.size(), 2u);
      EXPECT_EQ(outputs[0].ToDoubles()[0], 0);
      EXPECT_TRUE(std::isnan(outputs[0].ToDoubles()[2]));
    }
  }
}

// Windows of 2 x 2 over images of 2 x 10, with ties, and with values below every finite number.
TEST_F(GpuNnTest, MaxPoolOfInfinitiesNaNAndTies) {
  const float rows[2][10] = {{-kInfinity, -kInfinity, kNaN, kNaN, kNaN, -5, kInfinity, 1, 7, 7},
                             {-kInfinity, -kInfinity, kNaN, kNaN, 3, kNaN, kNaN, 2, 7, 7}};
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    Tensor x(DType::kFloat32, {1, 2, 10, 3});
    for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = rows[i / 30][i / 3 % 10];
    for (const int64_t stride : {1, 2}) {
      const Output y =
          MaxPool(scope(), Cast(scope(), Const(scope(), x), dtype), {.stride_h = stride, .stride_w = stride});
      if (stride == 2) {
        const std::vector<Tensor> outputs = OnGpu(RunOf(y));
        ASSERT_EQ(outputs.size(), 2);
        const std::vector<double> winners = outputs[1].ToDoubles();
        EXPECT_EQ(winners[0], 0);   // all -infinity
        EXPECT_EQ(winners[3], 0);   // all NaN
        EXPECT_EQ(winners[6], 2);   // 3, not NaN
        EXPECT_EQ(winners[12], 0);  // the first of four
        const std::vector<double> values = outputs[0].ToDoubles();
        EXPECT_EQ(values[0], -kInfinity);
        EXPECT_TRUE(std::isnan(values[3]));
        EXPECT_EQ(values[6], 3);
        EXPECT_EQ(values[9], kInfinity);
      }
      if (dtype == DType::kFloat64) ExpectAgrees(y);  // the CPU's own loops
    }
  }
}

// An infinity or NaN spreads as far as its window, and not to other rows.
TEST_F(GpuNnTest, LrnOfInfinitiesAndNaN) {
  for (const int64_t channels : {23, 24}) {
    for (const double beta : {0.75, 0.5, 0.6}) {
      Tensor values(DType::kFloat32, {60, channels}), slopes(DType::kFloat32, {60, channels});
      for (int64_t i = 0; i < values.elements(); ++i) {
        values.data<float>()[i] = static_cast<float>(std::sin(static_cast<double>(i)));
        slopes.data<float>()[i] = static_cast<float>(std::cos(static_cast<double>(3 * i)));
      }
      for (int64_t row = 0; row < 60; row += 2) {
        values.data<float>()[row * channels + row % channels] = row % 4 == 0 ? kNaN : kInfinity;
        slopes.data<float>()[row * channels + (row + 11) % channels] = row % 3 == 0 ? kNaN : -kInfinity;
      }
      const Output x = Const(scope(), values), dy = Const(scope(), slopes);
      for (const int64_t radius : {2, 4}) {
        ExpectAgrees(LocalResponseNormalization(scope(), x, {.depth_radius = radius, .beta = beta}));
        ExpectAgrees(scope().Add("LRNGrad", {dy, x}, {{"depth_radius", radius}, {"beta", beta}}), 1e-4);
      }
    }
  }
}

TEST_F(GpuNnTest, MomentsOfNumbersFarFromZero) {
  for (const int64_t rows : {1, 7, 5000}) {
    Tensor x(DType::kFloat32, {rows, 3});
    double mean[3] = {}, variance[3] = {};
    for (int64_t i = 0; i < x.elements(); ++i) {
      x.data<float>()[i] = 10000 + 3 * static_cast<float>(std::sin(static_cast<double>(i * i)));
      mean[i % 3] += x.data<float>()[i] / static_cast<double>(rows);
    }
    for (int64_t i = 0; i < x.elements(); ++i) {
      variance[i % 3] += std::pow(x.data<float>()[i] - mean[i % 3], 2) / static_cast<double>(rows);
    }
    const Output y = ChannelMoments(scope(), Const(scope(), x)).mean;
    const std::vector<Tensor> outputs = OnGpu(RunOf(y));
    ASSERT_EQ(outputs.size(), 2);
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(outputs[0].ToDoubles()[c], mean[c], 2e-3);
      EXPECT_NEAR(outputs[1].ToDoubles()[c], variance[c], 1e-5 * variance[c]);
    }
  }
}

TEST_F(GpuNnTest, NormsOfNumbersWhoseSquaresOverflowOrVanish) {
  for (const int64_t n : {12, 40, 2000, 4000}) {
    Tensor values(DType::kFloat32, {4, n}), slopes(DType::kFloat32, {4, n});
    for (int64_t i = 0; i < values.elements(); ++i) {
      const float sizes[] = {1e20f, 1, 1e-25f, 3e38f};
      values.data<float>()[i] = sizes[i / n] * static_cast<float>(std::sin(static_cast<double>(i)));
      slopes.data<float>()[i] = static_cast<float>(std::cos(static_cast<double>(3 * i)));
    }
    const Output x = Const(scope(), values), dy = Const(scope(), slopes);
    const Output ones = Fill(scope(), {n}, 1, DType::kFloat32);
    for (const double epsilon : {0.0, 1e-5}) {
      ExpectAgrees(LayerNorm(scope(), x, ones, ones, epsilon));
      ExpectAgrees(RmsNorm(scope(), x, ones, epsilon));
      ExpectAgrees(GroupNorm(scope(), x, ones, ones, 2, epsilon));
      ExpectAgrees(scope().Add("LayerNormGrad", {x, ones, dy}, {{"epsilon", epsilon}}), 1e-4);
      ExpectAgrees(scope().Add("RmsNormGrad", {x, ones, dy}, {{"epsilon", epsilon}}), 1e-4);
      ExpectAgrees(scope().Add("GroupNormGrad", {x, ones, dy}, {{"groups", int64_t{2}}, {"epsilon", epsilon}}), 1e-4);
    }
  }
}

TEST_F(GpuNnTest, GroupNormOfNumbersFarFromZero) {
  constexpr int64_t kPlaces = 700, kSize = 3, kGroups = 2, kRow = kSize * kGroups;
  Tensor x(DType::kFloat32, {2, kPlaces, kRow});
  double mean[2][kGroups] = {}, variance[2][kGroups] = {};
  const auto each = [&](const auto& f) {
    for (int64_t i = 0; i < x.elements(); ++i) f(i, i / (kPlaces * kRow), i % kRow / kSize);
  };
  constexpr double kCount = kPlaces * kSize;
  each([&](int64_t i, int64_t example, int64_t group) {
    x.data<float>()[i] = 10000 + 3 * static_cast<float>(std::sin(static_cast<double>(i * i)));
    mean[example][group] += x.data<float>()[i] / kCount;
  });
  each([&](int64_t i, int64_t example, int64_t group) {
    variance[example][group] += std::pow(x.data<float>()[i] - mean[example][group], 2) / kCount;
  });
  const Output ones = Fill(scope(), {kRow}, 1, DType::kFloat32), zeros = Fill(scope(), {kRow}, 0, DType::kFloat32);
  const std::vector<Tensor> outputs = OnGpu(RunOf(GroupNorm(scope(), Const(scope(), x), ones, zeros, kGroups)));
  ASSERT_EQ(outputs.size(), 1);
  each([&](int64_t i, int64_t example, int64_t group) {
    const double z = (x.data<float>()[i] - mean[example][group]) / std::sqrt(variance[example][group] + 1e-5);
    EXPECT_NEAR(outputs[0].data<float>()[i], z, 1e-3) << i;
  });
}

// An infinity or NaN reaches its own group and no other.
TEST_F(GpuNnTest, GroupNormOfInfinitiesAndNaN) {
  for (const int64_t places : {20, 600}) {
    Tensor values(DType::kFloat32, {5, places, 8}), slopes(DType::kFloat32, {5, places, 8});
    for (int64_t i = 0; i < values.elements(); ++i) {
      values.data<float>()[i] = static_cast<float>(std::sin(static_cast<double>(i)));
      slopes.data<float>()[i] = static_cast<float>(std::cos(static_cast<double>(3 * i)));
    }
    const int64_t row = places * 8;
    values.data<float>()[0] = kNaN;
    values.data<float>()[row + 8 * 7 + 2] = kInfinity;
    values.data<float>()[2 * row - 1] = -kInfinity;
    slopes.data<float>()[2 * row + 5] = kNaN;
    slopes.data<float>()[4 * row - 9] = kInfinity;
    const Output x = Const(scope(), values), dy = Const(scope(), slopes);
    const Output ones = Fill(scope(), {8}, 1, DType::kFloat32);
    for (const int64_t groups : {1, 4}) {
      ExpectAgrees(GroupNorm(scope(), x, ones, ones, groups));
      ExpectAgrees(scope().Add("GroupNormGrad", {x, ones, dy}, {{"groups", groups}}), 1e-4);
    }
  }
}

TEST_F(GpuNnTest, GlobalNormOfNumbersWhoseSquaresOverflowOrVanish) {
  for (const int64_t n : {1, 100, 40000}) {
    for (const double size : {1e-25, 1e-40, 1e20, 3e38}) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
        const Output x = Fill(scope(), {n}, size, dtype);
        const Output norm = GlobalNorm(scope(), {x, x}, DType::kFloat64);
        const std::vector<Tensor> found = OnGpu(RunOf(norm));
        ASSERT_EQ(found.size(), 1);
        EXPECT_NEAR(found[0].scalar<double>() / (size * std::sqrt(2.0 * static_cast<double>(n))), 1, 1e-4) << size;
        ExpectAgrees(ClipToNorm(scope(), x, norm, 1e-6));
      }
    }
    const Output x = Fill(scope(), {n}, 1e300, DType::kFloat64);
    EXPECT_NEAR(OnGpu(RunOf(GlobalNorm(scope(), {x}, DType::kFloat64)))[0].scalar<double>() / 1e300,
                std::sqrt(static_cast<double>(n)), 1e-9 * static_cast<double>(n));
  }
}

TEST_F(GpuNnTest, SingularPoints) {
  const Output x = Row({-kInfinity, kInfinity, kInfinity, -kInfinity, kNaN, 0}), t = Row({0, 1, 0, 1, 0, 1});
  ExpectAgrees(SigmoidCrossEntropy(scope(), x, t));
  ExpectAgrees(
      FloorDiv(scope(), Row({1, -496, -5, kInfinity, 7, -7, 1, 0}), Row({0.1f, -3.1f, kInfinity, 2, -2, 2, 0, 3})));
  ExpectAgrees(
      FloorMod(scope(), Row({1, -496, -5, kInfinity, 7, -7, 1, 0}), Row({0.1f, -3.1f, kInfinity, 2, -2, 2, 0, 3})));
  for (const std::vector<float>& factors : std::vector<std::vector<float>>{
           {kInfinity, 2, 3}, {-kInfinity, 0, 3}, {2, kNaN, 3}, {0, 2, 0}, {1e30f, 1e30f, 1e-30f}}) {
    ExpectAgrees(
        scope().Add("ProdGrad", {Row(factors), Row({1})}, {{"axes", std::vector<int64_t>{0}}, {"keep_dims", true}}));
  }
}

TEST_F(GpuNnTest, AttentionOfScoresThatAreAllMaskedByTheSame) {
  const auto waves = [&](const Shape& shape, double step) {
    Tensor wave(DType::kFloat32, shape);
    for (int64_t i = 0; i < wave.elements(); ++i) {
      wave.data<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
    }
    return Const(scope(), wave);
  };
  const Output q = Fill(scope(), {1, 40, 2, 3}, 0), k = waves({1, 50, 2, 3}, 1.3), v = waves({1, 50, 2, 3}, 1.7);
  for (const float low : {-1e5f, -1e9f, std::numeric_limits<float>::lowest()}) {
    Tensor mask(DType::kFloat32, {40, 50});
    for (int64_t i = 0; i < mask.elements(); ++i) {
      mask.data<float>()[i] = i % 5 == 3 ? -kInfinity : i / 50 % 2 == 1 ? low : 0;
    }
    const Output masks = Const(scope(), mask);
    const auto both = scope().AddAll("Attention", {q, k, v, masks}, {{"U", DType::kFloat32}});
    ASSERT_EQ(both.size(), 2u) << graph_.status();
    // On CPUs the log-sum-exp of the lowest number is clamped in other units.
    if (low > -1e38f) ExpectAgrees(both[0]);
    ExpectAgrees(scope().Add("AttentionGrad", {q, k, v, both[0], both[1], waves({1, 40, 2, 3}, 0.7), masks}), 1e-4);
  }
}

TEST_F(GpuNnTest, AttentionOfKeysThatAMaskHidesFromAllQueries) {
  for (const int64_t width : {3, 32, 144}) {
    Tensor keys(DType::kFloat32, {1, 90, 1, width}), mask(DType::kFloat32, {90}),
        queries(DType::kFloat32, {1, 5, 1, width});
    for (int64_t i = 0; i < queries.elements(); ++i) queries.data<float>()[i] = std::sin(0.9f * static_cast<float>(i));
    for (int64_t i = 0; i < keys.elements(); ++i) {
      const bool hidden = i / width >= 33;
      keys.data<float>()[i] = hidden ? (i % 2 == 0 ? kNaN : kInfinity) : std::sin(1.3f * static_cast<float>(i));
      mask.data<float>()[i / width] = hidden ? -kInfinity : 0;
    }
    const Output k = Const(scope(), keys);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const auto cast = [&](Output x) { return Cast(scope(), x, dtype); };
      const Output y =
          scope().AddAll("Attention", {cast(Const(scope(), queries)), cast(k), cast(k), cast(Const(scope(), mask))},
                         {{"U", DType::kFloat32}})[0];
      for (const double x : OnGpu(RunOf(y))[0].ToDoubles()) EXPECT_TRUE(std::isfinite(x));
      ExpectAgrees(y, dtype == DType::kFloat32 ? 1e-5 : 2e-2);
    }
  }
}

TEST_F(GpuNnTest, SumsOfManyRowsOfOneIndex) {
  for (const int64_t count : {1, 16, 17, 300, 3000}) {
    for (const int64_t period : {1, 2, 100}) {  // number of indices
      Tensor rows(DType::kFloat32, {count, 3}), indices(DType::kInt64, {count});
      for (int64_t i = 0; i < rows.elements(); ++i) {
        rows.data<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i)));
      }
      for (int64_t i = 0; i < count; ++i) indices.data<int64_t>()[i] = i % 50 == 49 ? -1 : i % period;
      ExpectAgrees(SumRows(scope(), Const(scope(), rows), Const(scope(), indices)).value, 1e-4);
    }
  }
}

// A single sum would lose ones that are added to a large number.
TEST_F(GpuNnTest, RowsOfOneIndexAreAddedUpInGroups) {
  constexpr int64_t kCount = 4096;
  Tensor rows(DType::kFloat32, {kCount, 1});
  rows.data<float>()[0] = 0x1p24f;
  std::fill_n(rows.data<float>() + 1, kCount - 1, 1.0f);
  const Output indices = Fill(scope(), {kCount}, 5, DType::kInt32);
  const std::vector<Tensor> sums = OnGpu(RunOf(SumRows(scope(), Const(scope(), rows), indices).value));
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_GT(sums[0].data<float>()[0], 0x1p24f + kCount / 2);
}

TEST_F(GpuNnTest, RecurrencesIn16BitsAreFiniteWhereProductsOverflow) {
  const auto large = [&](const Shape& shape, double step) {
    Tensor x(DType::kFloat32, shape);
    for (int64_t i = 0; i < x.elements(); ++i) {
      x.data<float>()[i] = static_cast<float>(6e4 * std::sin(step * static_cast<double>(i + 1)));
    }
    return Cast(scope(), Const(scope(), x), DType::kFloat16);
  };
  for (const int64_t gates : {3, 4}) {
    const Output projection = large({2, 3, 5 * gates}, 1.3), weights = large({5, 5 * gates}, 2.7);
    const Output state = large({2, 5}, 0.9);
    const std::vector<Output> all =
        gates == 3 ? scope().AddAll("Gru", {projection, weights, large({15}, 1.1), state})
                   : scope().AddAll("Lstm", {projection, weights, state, large({2, 5}, 0.2)}, {{"U", DType::kFloat32}});
    ASSERT_FALSE(all.empty()) << graph_.status();
    for (const double y : OnGpu(RunOf(all[0]))[0].ToDoubles()) EXPECT_TRUE(std::isfinite(y));
    ExpectAgrees(all[0], 1e-3);
  }
}

}  // namespace
}  // namespace belfry::ops
