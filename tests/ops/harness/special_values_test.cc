#include <cmath>
#include <limits>
#include <vector>

#include "framework/device/device_set.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/training.h"
#include "tests/ops/harness/special_values.h"
#include "tests/ops/harness/value.h"

namespace belfry::ops {
namespace {

using ::testing::HasSubstr;

std::vector<double> Apply(Output (*f)(const Scope&, Output), const std::vector<float>& x) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output y = f(scope, Const(scope, Tensor::Of<float>(x, {static_cast<int64_t>(x.size())})));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  auto value = ValueOf(Value(y));
  return value.ToDoubles();
}

struct Limits {
  const char* name;
  Output (*f)(const Scope&, Output);
  double at_minus_infinity, at_infinity;
};

class ActivationLimits : public ::testing::TestWithParam<Limits> {};

TEST_P(ActivationLimits, InfinitiesReachTheirLimitsAndNaNStays) {
  const std::vector<double> y = Apply(GetParam().f, {-kInfinity, kInfinity, kNaN, 0, -0.0f});
  const double limits[] = {GetParam().at_minus_infinity, GetParam().at_infinity};
  for (int i = 0; i < 2; ++i) {
    if (std::isinf(limits[i])) {
      EXPECT_EQ(y[i], limits[i]);
    } else {
      EXPECT_NEAR(y[i], limits[i], 1e-6);
    }
  }
  EXPECT_TRUE(std::isnan(y[2]));
}

INSTANTIATE_TEST_SUITE_P(
    All, ActivationLimits,
    ::testing::Values(
        Limits{"Relu", [](const Scope& s, Output x) { return Relu(s, x); }, 0, kInfinity},
        Limits{"Relu6", [](const Scope& s, Output x) { return Relu6(s, x); }, 0, 6},
        Limits{"LeakyRelu", [](const Scope& s, Output x) { return LeakyRelu(s, x); }, -kInfinity, kInfinity},
        Limits{"Elu", [](const Scope& s, Output x) { return Elu(s, x); }, -1, kInfinity},
        Limits{"Selu", [](const Scope& s, Output x) { return Selu(s, x); }, -1.7580993408473766, kInfinity},
        Limits{"Gelu", [](const Scope& s, Output x) { return Gelu(s, x); }, 0, kInfinity},
        Limits{"GeluTanh", [](const Scope& s, Output x) { return Gelu(s, x, true); }, 0, kInfinity},
        Limits{"Silu", [](const Scope& s, Output x) { return Silu(s, x); }, 0, kInfinity},
        Limits{"Softplus", [](const Scope& s, Output x) { return Softplus(s, x); }, 0, kInfinity}),
    [](const auto& info) { return info.param.name; });

template <class T>
void ExpectNear(T found, T expected, T of) {
  if (std::isfinite(expected)) {
    EXPECT_NEAR(found, expected, 4 * std::numeric_limits<T>::epsilon() * std::abs(expected)) << "of " << of;
  } else {
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(found) : found == expected) << found << " of " << of;
  }
}

// A block that fills vector registers, and what remains of it, alone and in a fused chain.
template <class T>
void ExpectLogs(DType dtype) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> values = {Limits::denorm_min(),
                                 Limits::min() / 3,
                                 Limits::min(),
                                 Limits::max(),
                                 T(1e-40),
                                 -Limits::denorm_min(),
                                 T(0),
                                 T(-0.0),
                                 T(-1),
                                 Limits::infinity(),
                                 T(1),
                                 -Limits::infinity(),
                                 Limits::quiet_NaN(),
                                 T(1) + Limits::epsilon(),
                                 T(0.5),
                                 Limits::min() * T(0.999)};
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output x = Placeholder(scope, dtype, {Shape::kUnknown}), y = Log(scope, x);
  const Output chain = Add(scope, Scale(scope, Log(scope, x), 2), x);
  const DeviceSet devices = DeviceSet::Open("cpu:1").value();
  const auto session = Session::Create(graph, devices, {.fuse_elementwise_from = 0}).value();
  for (const int64_t size : {1, 2, 3, 7, 15, 16, 17, 33, 1000}) {
    for (size_t first = 0; first < values.size(); ++first) {
      Tensor fed(dtype, {size});
      for (int64_t i = 0; i < size; ++i) fed.data<T>()[i] = values[(first + i) % values.size()];
      const std::vector<Tensor> alone = session->Run({{x, fed}}, {y}).value();
      const std::vector<Tensor> fused = session->Run({{x, fed}}, {chain}).value();
      for (int64_t i = 0; i < size; ++i) {
        const T of = fed.data<T>()[i], log = std::log(of);
        ExpectNear(alone[0].data<T>()[i], log, of);
        ExpectNear(fused[0].data<T>()[i], 2 * log + of, of);
      }
    }
  }
}

TEST(Log, OfSubnormalAndSpecialValues) {
  ExpectLogs<float>(DType::kFloat32);
  ExpectLogs<double>(DType::kFloat64);
}

TEST(Softmax, IsSharperWhenColdAndFlatterWhenHot) {
  // exp(x / temperature) / sum, for x = 1, 2, 3.
  const auto at = [](double temperature) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    const Output y = Softmax(scope, Const(scope, {1.f, 2.f, 3.f}), {.temperature = temperature});
    return Value(y)->ToDoubles();
  };
  EXPECT_THAT(at(1), ::testing::Pointwise(::testing::DoubleNear(1e-6), {0.09003057, 0.24472847, 0.66524096}));
  EXPECT_THAT(at(0.5), ::testing::Pointwise(::testing::DoubleNear(1e-6), {0.01587624, 0.11731043, 0.86681333}));
  EXPECT_GT(at(0.6)[2], at(1)[2]);
  EXPECT_LT(at(5)[2], at(1)[2]);
}

TEST(Softmax, DoesNotOverflow) {
  EXPECT_THAT(Apply([](const Scope& s, Output x) { return Softmax(s, x); }, {1e30f, 1e30f, -kInfinity}),
              ::testing::ElementsAre(0.5, 0.5, 0));
  EXPECT_NEAR(Apply([](const Scope& s, Output x) { return LogSoftmax(s, x); }, {0, -1000})[1], -1000, 1e-3);
}

TEST(Softmax, RefusesATemperatureThatIsNotPositiveOrHasNoReciprocal) {
  for (const double temperature : {0.0, -1.0, 1e-40, std::nan("")}) {
    Graph graph(BuiltinOps());
    const Scope scope(graph);
    Softmax(scope, Const(scope, {1.f}), {.temperature = temperature});
    EXPECT_THAT(graph.status().message(), HasSubstr("temperature must be positive (at least 1e-38), but is "))
        << temperature;
  }
}

TEST(Normalizations, RefuseAnEpsilonThatIsNegativeOrNoNumber) {
  for (const double epsilon : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const bool layer : {false, true}) {
      Graph graph(BuiltinOps());
      const Scope scope(graph);
      const Output x = Const(scope, Tensor::Of<float>({1, 2}, {1, 2})), of = Const(scope, {1.f, 1.f});
      if (layer) {
        LayerNorm(scope, x, of, of, epsilon);
      } else {
        BatchNorm(scope, x, of, of, epsilon);
      }
      EXPECT_THAT(graph.status().message(), HasSubstr("epsilon must be finite and at least 0, but is "))
          << (layer ? "layer" : "batch") << " normalization with " << epsilon;
    }
  }
}

// Windows of 2 x 2 over images of 2 x 8, including values below every finite number.
TEST(MaxPool, KeepsInfinitiesAndLetsNaNLose) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (int64_t channels : {1, 3, 16}) {
      const float rows[2][8] = {{-kInfinity, -kInfinity, kNaN, kNaN, kNaN, -5, kInfinity, 1},
                                {-kInfinity, -kInfinity, kNaN, kNaN, 3, kNaN, kNaN, 2}};
      Tensor x(DType::kFloat32, {1, 2, 8, channels});
      for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = rows[i / channels / 8][i / channels % 8];
      Graph graph(BuiltinOps());
      const Scope scope(graph);
      const Output from = Cast(scope, Const(scope, x), dtype);
      const Output y = Cast(scope, MaxPool(scope, from), DType::kFloat32);
      ASSERT_OK_AND_ASSIGN(const auto value, Value(y));
      for (int64_t c = 0; c < channels; ++c) {
        const float* at = value.data<float>() + c;
        EXPECT_EQ(at[0], -kInfinity) << DTypeName(dtype) << ", " << channels << " channels";
        EXPECT_TRUE(std::isnan(at[channels])) << DTypeName(dtype) << ", " << channels << " channels: " << at[channels];
        EXPECT_EQ(at[2 * channels], 3);
        EXPECT_EQ(at[3 * channels], kInfinity);
      }
    }
  }
}

TEST(ClipByValue, NeedsAnOrder) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  ClipByValue(scope.Named("clip"), Const(scope, {1.f}), 2, 1);
  EXPECT_THAT(graph.status().message(), HasSubstr("'clip' (op ClipByValue): low 2 is above high 1"));
}

TEST(CheckNumerics, NamesTheNodeAndCounts) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Output good = CheckNumerics(scope, Const(scope, {1.f, -2.f}), "logits");
  EXPECT_THAT(Value(good)->ToDoubles(), ::testing::ElementsAre(1, -2));
  const Output bad = CheckNumerics(scope, Const(scope, {1.f, kNaN, kInfinity, -kInfinity, 0.f}), "logits");
  const auto value = Value(bad);
  ASSERT_FALSE(value.ok());
  EXPECT_THAT(value.status().message(), HasSubstr("logits: the tensor of 'CheckNumerics"));
  EXPECT_THAT(value.status().message(), HasSubstr("had 1 NaN and 2 infinite values among 5"));
}

// (dy - x (x dy) / 5000^2) / 2; the products of the elements are beyond float16.
TEST(SpecialValues, GradientsOfClippingDoNotOverflow) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const auto half = [&](float a, float b) { return Cast(scope, Const(scope, {a, b}), DType::kFloat16); };
  const Output x = half(3000, 4000), dy = half(100, 1);
  const Output y = ClipToNorm(scope, x, GlobalNorm(scope, {x}, DType::kFloat32), 2500);
  const auto gradients = ValueOf(Gradients(scope, {y}, {x}, {.grad_ys = {dy}}));
  const std::vector<double> dx = ValueOf(harness::Evaluate({gradients[0]}, {}))[0].ToDoubles();
  EXPECT_NEAR(dx[0], 31.76, 0.05);
  EXPECT_NEAR(dx[1], -23.82, 0.05);
}

}  // namespace
}  // namespace belfry::ops
