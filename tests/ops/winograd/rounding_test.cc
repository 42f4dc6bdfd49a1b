#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <tuple>
#include <vector>

#include "framework/base/half.h"
#include "framework/device/device_set.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/nn.h"
#include "ops/winograd/winograd_impl.h"
#include "tests/main/testing.h"

namespace belfry::ops::winograd {
namespace {

// Elements that T holds exactly.
template <class T = float>
Tensor Random(const Shape& shape) {
  std::normal_distribution<float> normal;
  Tensor tensor(DType::kFloat32, shape);
  std::generate_n(tensor.data<float>(), tensor.elements(),
                  [&] { return static_cast<float>(static_cast<T>(normal(TestRandom()))); });
  return tensor;
}

// A convolution of x and w, and its gradients, computed in `dtype` and given in float64.
std::vector<Tensor> Convolve(const std::vector<Tensor>& values, DType dtype, bool winograd) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  std::vector<Output> inputs, in;
  std::vector<Feed> feeds;
  for (const Tensor& value : values) {
    inputs.push_back(Placeholder(root, DType::kFloat32, value.shape()));
    in.push_back(Cast(root, inputs.back(), dtype));
    feeds.push_back({inputs.back(), value});
  }
  const Output y = Conv2D(root, in[0], in[1]);
  const std::vector<Output> gradients = Gradients(root, {y}, {in[0], in[1]}, {.grad_ys = {in[2]}}).value();
  std::vector<Output> results;
  for (const Output& result : {y, gradients[0], gradients[1]}) results.push_back(Cast(root, result, DType::kFloat64));
  const DeviceSet devices = DeviceSet::Open("cpu:1", {.math = {.winograd = winograd}}).value();
  return Session::Create(graph, devices).value()->Run(feeds, results).value();
}

// The root mean square of the elements.
double SizeOf(const Tensor& x) {
  double squares = 0;
  for (const double value : x.ToDoubles()) squares += value * value;
  return std::sqrt(squares / static_cast<double>(x.elements()));
}

// The root mean square error.
double ErrorOf(const Tensor& got, const Tensor& want) {
  double squares = 0;
  for (int64_t i = 0; i < want.elements(); ++i) {
    squares += std::pow(got.data<double>()[i] - want.data<double>()[i], 2);
  }
  return std::sqrt(squares / static_cast<double>(want.elements()));
}

// --winograd and docs/determinism.md state the ratios on processors with AVX-512. How exact plain sums are depends on
// the processor's kernels; Winograd's errors do not, so these are bounded, in units of 2^-24 of the size of the
// results, by a quarter more than was measured.
TEST(WinogradRounding, ComparedWithPlainSums) {
  for (const auto& [size, filter, channels, bound, bound_of_filter] :
       {std::tuple(12, 5, 64, 70, 57), std::tuple(16, 3, 64, 37, 31)}) {
    const ConvolutionGeometry shape{
        .n = 8, .h = size, .w = size, .c = channels, .k = channels, .r = filter, .s = filter};
    if (!Computes(shape, Pass::kForward)) GTEST_SKIP() << "compiled for a processor without AVX2";
    const std::vector<Tensor> values = {Random({8, size, size, channels}), Random({filter, filter, channels, channels}),
                                        Random({8, size, size, channels})};
    const std::vector<Tensor> exact = Convolve(values, DType::kFloat64, false);
    const std::vector<Tensor> plain = Convolve(values, DType::kFloat32, false);
    const std::vector<Tensor> ours = Convolve(values, DType::kFloat32, true);
    const char* const names[] = {"forward", "input gradient", "filter gradient"};
    for (size_t i = 0; i < 3; ++i) {
      const double error = ErrorOf(ours[i], exact[i]), ratio = error / ErrorOf(plain[i], exact[i]);
      std::cout << filter << " x " << filter << ", " << channels << " channels, " << names[i] << ": " << ratio << "\n";
      EXPECT_LT(error / SizeOf(exact[i]) / 0x1p-24, i == 2 ? bound_of_filter : bound);
    }
  }
}

// In bfloat16, tiles of any size add a small part of what the rounding of stored elements takes. 7 x 7 has one tile of
// 7, 15 x 15 three of 5, 16 x 16 two of 8, and 12 x 12 two of 6 for the larger filter.
TEST(WinogradRounding, IsASmallPartOfBFloat16s) {
  for (const auto& [size, filter, channels, tile] :
       {std::tuple(7, 3, 64, 7), std::tuple(15, 3, 64, 5), std::tuple(16, 3, 64, 8), std::tuple(12, 5, 64, 6)}) {
    ConvolutionGeometry shape{.n = 16, .h = size, .w = size, .c = channels, .k = channels, .r = filter, .s = filter};
    shape.dtype = DType::kBFloat16;
    shape.pad_top = shape.pad_bottom = shape.pad_left = shape.pad_right = filter / 2;
    if (!Computes(shape, Pass::kForward)) GTEST_SKIP() << "compiled for a processor without AVX2";
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
      EXPECT_EQ(BestTile(shape, pass), tile) << size;
    }
    const std::vector<Tensor> values = {Random<BFloat16>({16, size, size, channels}),
                                        Random<BFloat16>({filter, filter, channels, channels}),
                                        Random<BFloat16>({16, size, size, channels})};
    const std::vector<Tensor> exact = Convolve(values, DType::kFloat64, false);
    const std::vector<Tensor> plain = Convolve(values, DType::kBFloat16, false);
    const std::vector<Tensor> ours = Convolve(values, DType::kBFloat16, true);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_LT(ErrorOf(ours[i], exact[i]), 1.02 * ErrorOf(plain[i], exact[i])) << size << " x " << size << ", " << i;
    }
  }
}

}  // namespace
}  // namespace belfry::ops::winograd
