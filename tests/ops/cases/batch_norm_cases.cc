// Cases of batch normalisation, by itself and fused with what follows.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/array.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

// Mean and biased variance over all axes but the last.
void Moments(const Array& x, std::vector<double>& mean, std::vector<double>& variance) {
  const int64_t c = x.shape[-1], rows = c == 0 ? 0 : x.size() / c;
  mean.assign(c, 0);
  variance.assign(c, 0);
  for (int64_t i = 0; i < x.size(); ++i) mean[i % c] += x[i] / static_cast<double>(rows);
  for (int64_t i = 0; i < x.size(); ++i) {
    variance[i % c] += (x[i] - mean[i % c]) * (x[i] - mean[i % c]) / static_cast<double>(rows);
  }
}

Array Normalize(const Array& x, const Array& scale, const Array& offset, const std::vector<double>& mean,
                const std::vector<double>& variance, double epsilon) {
  Array y(x.shape);
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t c = i % scale.size();
    y[i] = (x[i] - mean[c]) / std::sqrt(variance[c] + epsilon) * scale[c] + offset[c];
  }
  return y;
}

// Converts x to the dtype that batch normalisation uses for vectors over the channels.
Output Wide(const Scope& scope, Output x) {
  return ops::Cast(scope, x, x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
}

std::vector<OpCase> PlainNormCases() {
  OpCase y{.name = "BatchNorm",
           .inputs = {{{3, 2, 2, 5}, -1, 2}, {{5}, 0.5, 2}, {{5}, -1, 1}},
           .build =
               [](const Scope& scope, const Ins& in) {
                 return Outs{ops::BatchNorm(scope, in[0], Wide(scope, in[1]), Wide(scope, in[2])).y};
               },
           .reference =
               [](const Arrays& in) {
                 std::vector<double> mean, variance;
                 Moments(in[0], mean, variance);
                 return Arrays{Normalize(in[0], in[1], in[2], mean, variance, 1e-3)};
               },
           .more_shapes = {{{6, 3}, {3}, {3}},
                           {{0, 2, 2, 3}, {3}, {3}},
                           {{4, 1}, {1}, {1}},
                           {{3, 0}, {0}, {0}},
                           {{5, 300}, {300}, {300}},
                           {{20, 9, 9, 33}, {33}, {33}},
                           {{70, 30, 30, 3}, {3}, {3}},
                           {{700, 64}, {64}, {64}},
                           {{300, 257}, {257}, {257}},
                           {{500, 100}, {100}, {100}},
                           {{301, 1}, {1}, {1}}},
           .tolerance = 16,
           .gradient_tolerance = 16};
  OpCase moments = y;
  moments.name = "BatchNormMoments";
  moments.gradient = false;
  moments.build = [](const Scope& scope, const Ins& in) {
    const auto outputs = ops::BatchNorm(scope, in[0], Wide(scope, in[1]), Wide(scope, in[2]));
    return Outs{outputs.mean, outputs.variance};
  };
  moments.reference = [](const Arrays& in) {
    Array mean(in[1].shape), variance(in[1].shape);
    Moments(in[0], mean.values, variance.values);
    return Arrays{mean, variance};
  };
  OpCase channels = moments;
  channels.name = "ChannelMoments";
  channels.inputs.resize(1);
  channels.more_shapes = {{{6, 3}},          {{7}},       {{0, 2, 2, 3}}, {{4, 1}}, {{2, 3, 4, 2, 3}}, {{20, 9, 9, 33}},
                          {{70, 30, 30, 3}}, {{700, 64}}, {{300, 257}}};
  channels.gradient = true;
  channels.build = [](const Scope& scope, const Ins& in) {
    const auto outputs = ops::ChannelMoments(scope, in[0]);
    return Outs{outputs.mean, outputs.variance};
  };
  channels.reference = [](const Arrays& in) {
    Array mean(Shape({in[0].shape[-1]})), variance(Shape({in[0].shape[-1]}));
    Moments(in[0], mean.values, variance.values);
    return Arrays{mean, variance};
  };
  OpCase inference = y;
  inference.name = "BatchNormInference";
  inference.inputs.push_back({.shape = {5}});
  inference.inputs.push_back({.shape = {5}, .low = 0.5, .high = 2});
  for (auto& shapes : inference.more_shapes) {
    const Shape channels = shapes[1];
    shapes.insert(shapes.end(), {channels, channels});
  }
  inference.build = [](const Scope& scope, const Ins& in) {
    return Outs{ops::BatchNormInference(scope, in[0], Wide(scope, in[1]), Wide(scope, in[2]), Wide(scope, in[3]),
                                        Wide(scope, in[4]))};
  };
  inference.reference = [](const Arrays& in) {
    return Arrays{Normalize(in[0], in[1], in[2], in[3].values, in[4].values, 1e-3)};
  };
  return {y, moments, channels, inference};
}

// dx, dscale and doffset, with an epsilon of 1e-3, where d is the gradient of the normalised x.
Arrays NormGradient(const Array& x, const Array& d, const Array& scale, const Array& mean, const Array& variance) {
  Array dx(x.shape), dscale(scale.shape), doffset(scale.shape);
  const auto rows = static_cast<double>(x.size()) / static_cast<double>(std::max<int64_t>(dscale.size(), 1));
  const auto inverse = [&](int64_t c) { return 1 / std::sqrt(variance[c] + 1e-3); };
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t c = i % dscale.size();
    doffset[c] += d[i];
    dscale[c] += d[i] * (x[i] - mean[c]) * inverse(c);
  }
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t c = i % dscale.size();
    const double normal = (x[i] - mean[c]) * inverse(c);
    dx[i] = scale[c] * inverse(c) * (d[i] - (doffset[c] + normal * dscale[c]) / rows);
  }
  return {dx, dscale, doffset};
}

// The case of BatchNormRelu6Grad, from that of BatchNormReluGrad. Channels with a positive offset get 20 more, which
// takes them past 6; those of the others stay below it.
OpCase Relu6GradientCase(OpCase of) {
  of.name = "BatchNormRelu6Grad";
  of.build = [](const Scope& scope, const Ins& in) {
    const Output more = ops::Relu(scope, ops::Scale(scope, ops::Sign(scope, in[3]), 20));
    std::vector<Output> inputs = {ops::Add(scope, in[0], ops::Sign(scope, in[0])), in[1]};
    for (int i = 2; i < 6; ++i) inputs.push_back(Wide(scope, i == 3 ? ops::Add(scope, in[3], more) : in[i]));
    return Outs(scope.AddAll("BatchNormRelu6Grad", inputs));
  };
  of.reference = [](const Arrays& in) {
    Array x = in[0], d = in[1], offset = in[3];
    for (double& value : x.values) value += (value > 0) - (value < 0);
    for (double& value : offset.values) value += value > 0 ? 20 : 0;
    const Array y = Normalize(x, in[2], offset, in[4].values, in[5].values, 1e-3);
    for (int64_t i = 0; i < x.size(); ++i) d[i] = y[i] > 0 && y[i] < 6 ? d[i] : 0;
    return NormGradient(x, d, in[2], in[4], in[5]);
  };
  return of;
}

// The ops that the fusion pass produces: batch normalisation, addition and ReLU in one, and their gradients.
std::vector<OpCase> FusedNormCases() {
  const auto relu = [](Array y) {
    for (int64_t i = 0; i < y.size(); ++i) y[i] = std::max(y[i], 0.0);
    return y;
  };
  OpCase forward = PlainNormCases()[0];
  forward.name = "BatchNormRelu";
  forward.gradient = false;
  forward.build = [](const Scope& scope, const Ins& in) {
    return Outs(scope.AddAll("BatchNormRelu", {in[0], Wide(scope, in[1]), Wide(scope, in[2])}));
  };
  forward.reference = [=](const Arrays& in) {
    Array mean(in[1].shape), variance(in[1].shape);
    Moments(in[0], mean.values, variance.values);
    return Arrays{relu(Normalize(in[0], in[1], in[2], mean.values, variance.values, 1e-3)), mean, variance};
  };
  OpCase forward6 = forward;
  forward6.name = "BatchNormRelu6";
  forward6.build = [](const Scope& scope, const Ins& in) {
    return Outs(scope.AddAll("BatchNormRelu6", {in[0], Wide(scope, in[1]), Wide(scope, in[2])}));
  };
  forward6.reference = [of_relu = forward.reference](const Arrays& in) {
    Arrays all = of_relu(in);
    for (double& y : all[0].values) y = std::min(y, 6.0);
    return all;
  };
  OpCase add = forward;
  add.name = "BatchNormAddRelu";
  add.inputs.push_back(add.inputs[0]);
  for (auto& shapes : add.more_shapes) shapes.push_back(Shape(shapes[0]));
  add.build = [](const Scope& scope, const Ins& in) {
    return Outs(scope.AddAll("BatchNormAddRelu", {in[0], Wide(scope, in[1]), Wide(scope, in[2]), in[3]}));
  };
  add.reference = [=](const Arrays& in) {
    Array mean(in[1].shape), variance(in[1].shape);
    Moments(in[0], mean.values, variance.values);
    Array y = Normalize(in[0], in[1], in[2], mean.values, variance.values, 1e-3);
    for (int64_t i = 0; i < y.size(); ++i) y[i] += in[3][i];
    return Arrays{relu(y), mean, variance};
  };

  // x is kept far enough from 0 that rounding does not change the ReLU's mask.
  OpCase gradient{
      .name = "BatchNormReluGrad",
      .inputs = {{{3, 2, 2, 5}}, {{3, 2, 2, 5}}, {{5}, 1, 2}, {{5}, -0.2, 0.2}, {{5}, -0.2, 0.2}, {{5}, 0.5, 1}},
      .build =
          [](const Scope& scope, const Ins& in) {
            std::vector<Output> inputs = {ops::Add(scope, in[0], ops::Sign(scope, in[0])), in[1]};
            for (int i = 2; i < 6; ++i) inputs.push_back(Wide(scope, in[i]));
            if (in.size() == 6) return Outs(scope.AddAll("BatchNormReluGrad", inputs));
            inputs.push_back(in[6]);
            return Outs(scope.AddAll("BatchNormReluGradOfSum", inputs));
          },
      .reference =
          [](const Arrays& in) {
            Array x = in[0], d = in[1];
            for (int64_t i = 0; i < x.size(); ++i) x[i] += (x[i] > 0) - (x[i] < 0);
            const Array y = Normalize(x, in[2], in[3], in[4].values, in[5].values, 1e-3);
            for (int64_t i = 0; i < x.size(); ++i) d[i] = y[i] > 0 ? d[i] : 0;
            return NormGradient(x, d, in[2], in[4], in[5]);
          },
      .tolerance = 32,
      .gradient = false};
  for (const Shape& x : {Shape({6, 3}), Shape({0, 2, 2, 3}), Shape({4, 1}), Shape({5, 300}), Shape({20, 9, 9, 33}),
                         Shape({70, 30, 30, 3}), Shape({700, 64}), Shape({300, 257})}) {
    const Shape channels({x[-1]});
    gradient.more_shapes.push_back({x, x, channels, channels, channels, channels});
  }

  // Every element of the ReLU's output is far from 0 on one side.
  OpCase masked{
      .name = "BatchNormAddReluGrad",
      .inputs = {{{3, 2, 2, 5}}, {{3, 2, 2, 5}}, {{5}, 1, 2}, {{5}, -0.2, 0.2}, {{5}, 0.5, 1}, {{3, 2, 2, 5}}},
      .build =
          [](const Scope& scope, const Ins& in) {
            std::vector<Output> inputs = {in[0], in[1]};
            for (int i = 2; i < 5; ++i) inputs.push_back(Wide(scope, in[i]));
            inputs.push_back(ops::Add(scope, in[5], ops::Sign(scope, in[5])));
            if (in.size() == 6) return Outs(scope.AddAll("BatchNormAddReluGrad", inputs));
            inputs.push_back(in[6]);
            return Outs(scope.AddAll("BatchNormAddReluGradOfSum", inputs));
          },
      .reference =
          [](const Arrays& in) {
            Array d = in[1];
            for (int64_t i = 0; i < d.size(); ++i) {
              d[i] = in[5][i] > 0 ? d[i] + (in.size() > 6 ? in[6][i] : 0) : 0;
            }
            Arrays gradients = NormGradient(in[0], d, in[2], in[3], in[4]);
            gradients.push_back(d);
            return gradients;
          },
      .tolerance = 32,
      .gradient = false};
  for (const std::vector<Shape>& shapes : gradient.more_shapes) {
    masked.more_shapes.push_back({shapes[0], shapes[0], shapes[2], shapes[2], shapes[2], shapes[0]});
  }
  OpCase of_sum = masked;
  of_sum.name = "BatchNormAddReluGradOfSum";
  of_sum.inputs.push_back(of_sum.inputs[0]);
  for (auto& shapes : of_sum.more_shapes) shapes.push_back(Shape(shapes[0]));
  OpCase relu_of_sum = gradient;
  relu_of_sum.name = "BatchNormReluGradOfSum";
  relu_of_sum.inputs.push_back(relu_of_sum.inputs[1]);
  for (auto& shapes : relu_of_sum.more_shapes) shapes.push_back(Shape(shapes[0]));
  relu_of_sum.reference = [of_one = gradient.reference](const Arrays& in) {
    Arrays summed(in.begin(), in.end() - 1);
    for (int64_t i = 0; i < summed[1].size(); ++i) summed[1][i] += in[6][i];
    return of_one(summed);
  };
  return {forward, forward6, add, gradient, Relu6GradientCase(gradient), relu_of_sum, masked, of_sum};
}

// The two parts of a batch norm with fixed statistics that is folded: a factor of the filter before it, and a bias.
std::vector<OpCase> FoldedNormCases() {
  OpCase filter{.name = "BatchNormFilter",
                .inputs = {{{3, 3, 4, 5}}, {{5}, 0.5, 2}, {{5}, 0.5, 2}},
                .build =
                    [](const Scope& scope, const Ins& in) {
                      return Outs{scope.Add("BatchNormFilter", {in[0], in[1], in[2]}, {{"epsilon", 1e-3}})};
                    },
                .reference =
                    [](const Arrays& in) {
                      Array y(in[0].shape);
                      for (int64_t i = 0; i < y.size(); ++i) {
                        const int64_t c = i % in[1].size();
                        y[i] = in[0][i] * in[1][c] / std::sqrt(in[2][c] + 1e-3);
                      }
                      return Arrays{y};
                    },
                .more_shapes = {{{6, 3}, {3}, {3}},
                                {{1, 1, 7, 300}, {300}, {300}},
                                {{0, 2}, {2}, {2}},
                                {{5, 5, 3, 1}, {1}, {1}},
                                {{4, 0}, {0}, {0}}},
                .tolerance = 4,
                .gradient = false,
                .unknown_axes = {}};
  filter.dtypes = {DType::kFloat32, DType::kFloat64};
  OpCase bias = filter;
  bias.name = "BatchNormBias";
  bias.inputs = {{{5}, 0.5, 2}, {{5}}, {{5}}, {{5}, 0.5, 2}};
  bias.more_shapes = {{{1}, {1}, {1}, {1}}, {{0}, {0}, {0}, {0}}, {{300}, {300}, {300}, {300}}};
  bias.build = [](const Scope& scope, const Ins& in) {
    return Outs{scope.Add("BatchNormBias", {in[0], in[1], in[2], in[3]}, {{"epsilon", 1e-3}})};
  };
  bias.reference = [](const Arrays& in) {
    Array y(in[0].shape);
    for (int64_t c = 0; c < y.size(); ++c) y[c] = in[1][c] - in[2][c] * in[0][c] / std::sqrt(in[3][c] + 1e-3);
    return Arrays{y};
  };
  return {filter, bias};
}

}  // namespace

std::vector<OpCase> BatchNormCases() {
  std::vector<OpCase> cases = PlainNormCases();
  for (OpCase& op_case : FusedNormCases()) cases.push_back(std::move(op_case));
  for (OpCase& op_case : FoldedNormCases()) cases.push_back(std::move(op_case));
  return cases;
}

}  // namespace belfry::harness
