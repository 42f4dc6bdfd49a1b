#include "ops/onednn/convolution.h"

#include "framework/base/parallel.h"
#include "tests/main/testing.h"
#include "tests/ops/convolution/geometry.h"
#include "tests/ops/onednn/harness.h"

namespace belfry::ops::onednn {
namespace {

// Calls use(x index, weight index, y index) for every multiplication of a convolution.
template <class Use>
void ForEachTap(const ConvolutionGeometry& s, const Use& use) {
  const int64_t c = s.c / s.groups, k_per_group = s.k / s.groups;
  for (int64_t n = 0; n < s.n; ++n)
    for (int64_t oh = 0; oh < s.out_h(); ++oh)
      for (int64_t ow = 0; ow < s.out_w(); ++ow)
        for (int64_t r = 0; r < s.r; ++r)
          for (int64_t q = 0; q < s.s; ++q) {
            const int64_t h = oh * s.stride_h - s.pad_top + r * s.dilation_h;
            const int64_t w = ow * s.stride_w - s.pad_left + q * s.dilation_w;
            if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
            for (int64_t i = 0; i < c; ++i)
              for (int64_t k = 0; k < s.k; ++k)
                use(((n * s.h + h) * s.w + w) * s.c + k / k_per_group * c + i, ((r * s.s + q) * c + i) * s.k + k,
                    ((n * s.out_h() + oh) * s.out_w() + ow) * s.k + k);
          }
}

int64_t SizeX(const ConvolutionGeometry& s) { return s.n * s.h * s.w * s.c; }
int64_t SizeY(const ConvolutionGeometry& s) { return s.n * s.out_h() * s.out_w() * s.k; }
int64_t SizeWeights(const ConvolutionGeometry& s) { return s.r * s.s * (s.c / s.groups) * s.k; }

std::vector<ConvolutionGeometry> ConvolutionShapes() {
  return {
      {.n = 1, .h = 1, .w = 1, .c = 1, .k = 1, .r = 1, .s = 1},
      Padded({.n = 2, .h = 7, .w = 9, .c = 3, .k = 64, .r = 5, .s = 5}, {2, 2, 2, 2}),
      Padded({.n = 1, .h = 8, .w = 5, .c = 5, .k = 3, .r = 3, .s = 2, .stride_h = 2, .stride_w = 3}, {0, 1, 1, 0}),
      Padded({.n = 3, .h = 10, .w = 10, .c = 3, .k = 7, .r = 3, .s = 3, .stride_h = 2, .stride_w = 2}, {0, 1, 0, 1}),
      Padded({.n = 2, .h = 9, .w = 8, .c = 64, .k = 5, .r = 3, .s = 3}, {1, 2, 0, 3}),
      Padded({.n = 2, .h = 11, .w = 11, .c = 5, .k = 6, .r = 3, .s = 3, .dilation_h = 2, .dilation_w = 2},
             {2, 2, 2, 2}),
      {.n = 2, .h = 12, .w = 9, .c = 16, .k = 16, .r = 3, .s = 2, .dilation_h = 3, .dilation_w = 1},
      {.n = 2, .h = 6, .w = 6, .c = 64, .k = 64, .r = 1, .s = 1},
      {.n = 1, .h = 6, .w = 7, .c = 64, .k = 32, .r = 1, .s = 1, .stride_h = 2, .stride_w = 2},
      Padded({.n = 2, .h = 6, .w = 5, .c = 6, .k = 9, .r = 3, .s = 3, .groups = 3}, {1, 1, 1, 1}),
      Padded({.n = 1, .h = 7, .w = 7, .c = 32, .k = 32, .r = 3, .s = 3, .groups = 32}, {1, 1, 1, 1}),
      {.n = 2, .h = 6, .w = 6, .c = 5, .k = 10, .r = 3, .s = 3, .groups = 5},
      Padded({.n = 2, .h = 5, .w = 5, .c = 64, .k = 64, .r = 3, .s = 3, .groups = 2}, {1, 1, 1, 1})};
}

class Convolution : public ::testing::TestWithParam<std::tuple<size_t, DType, int>> {
 protected:
  Convolution() : threads_(std::get<2>(GetParam())) { shape_.dtype = std::get<1>(GetParam()); }
  ConvolutionGeometry shape_ = ConvolutionShapes()[std::get<0>(GetParam())];
  const double tolerance_ = Tolerance(std::get<1>(GetParam()));

 private:
  ScopedParallelThreads threads_;
};

TEST_P(Convolution, Forward) {
  const DType dtype = shape_.dtype;
  if (!IsComputed(dtype)) GTEST_SKIP() << kNotComputed;
  const Values x = Random(SizeX(shape_), dtype), weights = Random(SizeWeights(shape_), dtype);
  const Values bias = Random(shape_.k, dtype);
  Values product(SizeY(shape_));
  ForEachTap(shape_, [&](int64_t i, int64_t w, int64_t o) { product[o] += x[i] * weights[w]; });
  for (const bool with_bias : {false, true}) {
    for (const Epilogue& post_ops :
         {Epilogue{}, Epilogue{Activation::kLeakyRelu, 0.1}, Epilogue{Activation::kElu, 0.5}}) {
      ASSERT_OK_AND_ASSIGN(auto primitive, Conv2DForward(shape_, {.bias = with_bias, .post_ops = post_ops}));
      SCOPED_TRACE(shape_.DebugString() + " " + std::string(primitive.implementation()));
      EXPECT_FALSE(primitive.is_reference());
      Values want = product;
      double terms = 1e-3;
      for (size_t i = 0; i < want.size(); ++i) {
        const double more = with_bias ? bias[i % shape_.k] : 0;
        want[i] = Apply(post_ops, product[i] + more);
        terms = std::max(terms, std::abs(product[i]) + std::abs(more));
      }
      std::vector<Argument> inputs = {{x, dtype}, {weights, dtype}};
      if (with_bias) inputs.push_back({bias, dtype});
      const auto got = RunPrimitive(primitive, inputs, {{SizeY(shape_), dtype}});
      ExpectClose(got[0], want, tolerance_, terms);
    }
  }
}

TEST_P(Convolution, BackwardData) {
  const DType dtype = shape_.dtype;
  if (!IsComputed(dtype)) GTEST_SKIP() << kNotComputed;
  ASSERT_OK_AND_ASSIGN(auto primitive, Conv2DBackwardData(shape_));
  SCOPED_TRACE(shape_.DebugString() + " " + std::string(primitive.implementation()));
  const Values dy = Random(SizeY(shape_), dtype), weights = Random(SizeWeights(shape_), dtype);
  Values want(SizeX(shape_));
  ForEachTap(shape_, [&](int64_t i, int64_t w, int64_t o) { want[i] += dy[o] * weights[w]; });
  ExpectClose(RunPrimitive(primitive, {{dy, dtype}, {weights, dtype}}, {{SizeX(shape_), dtype}})[0], want, tolerance_);
}

TEST_P(Convolution, BackwardWeights) {
  const DType dtype = shape_.dtype;
  if (!IsComputed(dtype)) GTEST_SKIP() << kNotComputed;
  const Values x = Random(SizeX(shape_), dtype), dy = Random(SizeY(shape_), dtype);
  Values want(SizeWeights(shape_)), want_bias(shape_.k);
  ForEachTap(shape_, [&](int64_t i, int64_t w, int64_t o) { want[w] += dy[o] * x[i]; });
  for (size_t i = 0; i < dy.size(); ++i) want_bias[i % shape_.k] += dy[i];
  for (const bool bias : {false, true}) {
    for (const DType gradient_dtype : {DType::kFloat32, dtype}) {
      ASSERT_OK_AND_ASSIGN(auto primitive,
                           Conv2DBackwardWeights(shape_, {.bias = bias, .gradient_dtype = gradient_dtype}));
      SCOPED_TRACE(shape_.DebugString() + " " + std::string(primitive.implementation()));
      std::vector<Result> outputs = {{SizeWeights(shape_), gradient_dtype}};
      if (bias) outputs.push_back({shape_.k, gradient_dtype});
      const auto got = RunPrimitive(primitive, {{x, dtype}, {dy, dtype}}, outputs);
      ExpectClose(got[0], want, tolerance_);
      if (bias) ExpectClose(got[1], want_bias, tolerance_);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Convolution,
                         ::testing::Combine(::testing::Range<size_t>(0, ConvolutionShapes().size()),
                                            ::testing::Values(DType::kFloat32, DType::kBFloat16),
                                            ::testing::Values(1, 2)));

TEST(ConvolutionActivations, AreFused) {
  const ConvolutionGeometry shape{.n = 2, .h = 4, .w = 4, .c = 16, .k = 17, .r = 1, .s = 1};
  const Values x = Random(SizeX(shape)), weights = Random(SizeWeights(shape));
  for (const Epilogue& post_ops :
       {Epilogue{Activation::kLeakyRelu, 0.25}, Epilogue{Activation::kElu, 1.0}, Epilogue{Activation::kTanh}}) {
    SCOPED_TRACE(static_cast<int>(post_ops.activation));
    EXPECT_TRUE(Applies(post_ops));
    ASSERT_OK_AND_ASSIGN(auto primitive, Conv2DForward(shape, {.post_ops = post_ops}));
    Values want(SizeY(shape));
    ForEachTap(shape, [&](int64_t i, int64_t w, int64_t o) { want[o] += x[i] * weights[w]; });
    for (double& value : want) value = Apply(post_ops, value);
    ExpectClose(RunPrimitive(primitive, {{x}, {weights}}, {{SizeY(shape)}})[0], want, 1e-4);
  }
}

TEST(ConvolutionErrors, NameWhatIsWrong) {
  using ::testing::HasSubstr;
  const ConvolutionGeometry good{.n = 1, .h = 4, .w = 4, .c = 4, .k = 4, .r = 3, .s = 3};
  ConvolutionGeometry shape = good;
  shape.n = 0;
  EXPECT_EQ(Conv2DForward(shape).status().code(), absl::StatusCode::kInvalidArgument);
  shape = good;
  shape.r = 5;
  EXPECT_THAT(Conv2DForward(shape).status().message(), HasSubstr("[1,4,4,4] * [5,3,4,4]"));
  shape = good;
  shape.groups = 3;
  EXPECT_THAT(Conv2DBackwardWeights(shape).status().message(), HasSubstr("multiple of the groups, 3"));
  shape = good;
  shape.dtype = DType::kFloat64;
  EXPECT_THAT(Conv2DBackwardData(shape).status().message(), HasSubstr("float64"));
}

TEST(ConvolutionThreads, RunsWithTheThreadsThatItWasMadeFor) {
  const ConvolutionGeometry shape{.n = 4, .h = 6, .w = 6, .c = 16, .k = 16, .r = 3, .s = 3};
  const Values x = Random(SizeX(shape)), dy = Random(SizeY(shape));
  const auto run = [&](int made_for, int run_under) {
    int allowed = 0;  // at most OMP_THREAD_LIMIT
    absl::StatusOr<Primitive> primitive = [&] {
      const ScopedParallelThreads threads(made_for);
      allowed = ParallelThreads();
      return Conv2DBackwardWeights(shape);
    }();
    EXPECT_TRUE(primitive.ok()) << primitive.status();
    EXPECT_EQ(primitive->threads(), allowed);
    const ScopedParallelThreads threads(run_under);
    return RunPrimitive(*primitive, {{x}, {dy}}, {{SizeWeights(shape)}})[0];
  };
  EXPECT_EQ(run(1, 1), run(1, 2));
  EXPECT_EQ(run(2, 2), run(2, 1));
}

}  // namespace
}  // namespace belfry::ops::onednn
