#include <limits>

#include "framework/base/half.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "tests/ops/harness/value.h"

namespace belfry {
namespace {

TEST(ConstTest, PrintsAsTensorFlowsNodeSummary) {
  Graph graph(BuiltinOps());
  const Scope scope = Scope(graph).Device("/gpu:2");
  const Output b = ops::Const(scope.Named("b"), {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2});
  ASSERT_TRUE(b.valid()) << graph.status();
  EXPECT_EQ(b.node->Summary(),
            "b = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2] values: 1 2 3...>, _device=\"/gpu:2\"]()");
}

TEST(ConstTest, TakesScalarsVectorsAndTensorsOfAnyType) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  EXPECT_EQ(ops::Const(scope, 1.5f).shape(), Shape());
  EXPECT_EQ(ops::Const(scope, true).dtype(), DType::kBool);
  EXPECT_EQ(ops::Const(scope, {1, 2, 3}).shape(), Shape({3}));
  EXPECT_EQ(ops::Const(scope, {1.0, 2.0}, {2, 1}).dtype(), DType::kFloat64);
  EXPECT_EQ(ops::Const(scope, Half(0.5f)).dtype(), DType::kFloat16);
}

TEST(ConstTest, DoesNotChangeWithTheTensorItWasMadeFrom) {
  Graph graph(BuiltinOps());
  Tensor value = Tensor::Of<float>({1, 2});
  const Output constant = ops::Const(Scope(graph), value);
  value.data<float>()[0] = 7;
  EXPECT_EQ(ops::Values(constant), (std::vector<double>{1, 2}));
}

TEST(ConstTest, AValueOfAnotherDTypeIsAnError) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  EXPECT_FALSE(scope.Add("Const", {}, {{"dtype", DType::kInt32}, {"value", Tensor::Scalar(1.0f)}}).valid());
  EXPECT_NE(graph.status().message().find("'dtype' is int32, but the value is float32"), std::string::npos);
}

TEST(RangeTest, StopsBeforeTheLimit) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  EXPECT_EQ(ops::Values(ops::Range(scope, 3, 18, 3)), (std::vector<double>{3, 6, 9, 12, 15}));
  EXPECT_EQ(ops::Values(ops::Range(scope, 3, 1, -0.5, DType::kFloat32)), (std::vector<double>{3, 2.5, 2, 1.5}));
  EXPECT_EQ(ops::Value(ops::Range(scope, 5, 5))->shape(), Shape({0}));
  EXPECT_EQ(ops::Value(ops::Range(scope, 5, 1))->shape(), Shape({0}));
}

TEST(RangeTest, AddsIntegersAsSuch) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const Tensor large = ops::Value(ops::Range(scope, 0x1p53, 0x1p53 + 6, 1, DType::kInt64)).value();
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(large.data<int64_t>()[i], (int64_t{1} << 53) + i);
  const Tensor down = ops::Value(ops::Range(scope, -0x1p62, -0x1p63, -0x1p61, DType::kInt64)).value();
  EXPECT_EQ(down.data<int64_t>()[1], -(int64_t{1} << 62) - (int64_t{1} << 61));
  EXPECT_EQ(ops::Values(ops::Range(scope, 0, 256, 51, DType::kUInt8)),
            (std::vector<double>{0, 51, 102, 153, 204, 255}));
}

TEST(RangeTest, RefusesWhatItsDTypeCannotHold) {
  struct Case {
    double start, limit, delta;
    DType dtype;
  };
  for (const auto& [start, limit, delta, dtype] : std::vector<Case>{{0, 600, 100, DType::kUInt8},
                                                                    {-1, 2, 1, DType::kUInt8},
                                                                    {0x1p31 - 2, 0x1p31 + 2, 1, DType::kInt32},
                                                                    {0, 3, 0.5, DType::kInt32},
                                                                    {0.5, 3, 1, DType::kInt64},
                                                                    {0x1p63, 0x1p63 + 8192, 1024, DType::kInt64},
                                                                    {0x1p62, 0x1p63 + 0x1p62, 0x1p61, DType::kInt64},
                                                                    {0, 3000, 1, DType::kFloat16},
                                                                    {0, 1e5, 1e4, DType::kFloat16},
                                                                    {0x1p24, 0x1p24 + 4, 1, DType::kFloat32}}) {
    Graph graph(BuiltinOps());
    EXPECT_FALSE(ops::Range(Scope(graph).Named("r"), start, limit, delta, dtype).valid());
    const std::string message(graph.status().message());
    EXPECT_NE(message.find(std::string(DTypeName(dtype)) + " cannot hold the "), std::string::npos) << message;
    EXPECT_NE(message.find("constant_test.cc"), std::string::npos) << message;
  }
  Graph graph(BuiltinOps());
  EXPECT_EQ(ops::Value(ops::Range(Scope(graph), 0, 2049, 1, DType::kFloat16))->shape(), Shape({2049}));
}

TEST(RangeTest, NoStepIsAnError) {
  for (const double delta : {0.0, std::nan(""), 1e-300}) {
    Graph graph(BuiltinOps());
    EXPECT_FALSE(ops::Range(Scope(graph), 0, 1, delta).valid());
    EXPECT_NE(graph.status().message().find("there is no range from 0 to 1"), std::string::npos);
  }
}

TEST(FillTest, EveryTypeAndNoElements) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  for (const DType dtype : kAllDTypes) {
    const Tensor filled = ops::Value(ops::Fill(scope, {2, 3}, 1, dtype)).value();
    EXPECT_EQ(filled.dtype(), dtype);
    EXPECT_EQ(filled.ToDoubles(), std::vector<double>(6, 1)) << DTypeName(dtype);
    EXPECT_EQ(ops::Values(ops::OnesLike(scope, ops::Fill(scope, {3}, 0, dtype))), std::vector<double>(3, 1));
    EXPECT_EQ(ops::Values(ops::ZerosLike(scope, ops::Fill(scope, {3}, 1, dtype))), std::vector<double>(3, 0));
  }
  EXPECT_EQ(ops::Value(ops::Fill(scope, {4, 0}, 1))->shape(), Shape({4, 0}));
  EXPECT_FALSE(ops::Fill(scope, {-1, 2}, 1).valid());
}

TEST(CastTest, IsDefinedForEveryValue) {
  Graph graph(BuiltinOps());
  const Scope scope(graph);
  const float inf = std::numeric_limits<float>::infinity();
  const Output x = ops::Const(scope, {-inf, -1e20f, -1.9f, -0.0f, 0.5f, 255.9f, 256.f, 1e20f, inf, std::nanf("")});
  EXPECT_EQ(ops::Values(ops::Cast(scope, x, DType::kUInt8)),
            (std::vector<double>{0, 0, 0, 0, 0, 255, 255, 255, 255, 0}));
  const double low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(ops::Values(ops::Cast(scope, x, DType::kInt32)),
            (std::vector<double>{low, low, -1, 0, 0, 255, 256, high, high, 0}));
  EXPECT_EQ(ops::Values(ops::Cast(scope, x, DType::kBool)), (std::vector<double>{1, 1, 1, 0, 1, 1, 1, 1, 1, 1}));
  const Tensor wide = ops::Value(ops::Cast(scope, x, DType::kInt64)).value();
  EXPECT_EQ(wide.data<int64_t>()[0], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(wide.data<int64_t>()[8], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ops::Values(ops::Cast(scope, ops::Const(scope, {-1, 257}), DType::kUInt8)), (std::vector<double>{255, 1}));
  EXPECT_EQ(ops::Cast(scope, x, DType::kFloat32), x);
}

}  // namespace
}  // namespace belfry
