#include <cmath>

#include "absl/strings/str_cat.h"
#include "ops/math.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

Arrays Multiply(const Arrays& in, bool transpose_a, bool transpose_b) {
  const Shape &a = in[0].shape, &b = in[1].shape;
  const int64_t m = a[transpose_a ? -1 : -2], k = a[transpose_a ? -2 : -1], n = b[transpose_b ? -2 : -1];
  const Shape batch_a(a.dims().subspan(0, a.rank() - 2)), batch_b(b.dims().subspan(0, b.rank() - 2));
  const Shape batch = BroadcastShapes(batch_a, batch_b).value();
  const auto offset = [&](const Shape& own, int64_t i) {
    int64_t result = 0, stride = 1;
    for (int axis = batch.rank(); axis-- > batch.rank() - own.rank(); i /= batch[axis]) {
      const int64_t extent = own[axis - (batch.rank() - own.rank())];
      result += extent == 1 ? 0 : i % batch[axis] * stride;
      stride *= extent;
    }
    return result;
  };
  Array y(batch.Insert(batch.rank(), m).Insert(batch.rank() + 1, n));
  for (int64_t s = 0; s < batch.elements(); ++s) {
    const int64_t first_a = offset(batch_a, s) * m * k, first_b = offset(batch_b, s) * k * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t p = 0; p < k; ++p) {
          y[(s * m + i) * n + j] += in[0][first_a + (transpose_a ? p * m + i : i * k + p)] *
                                    in[1][first_b + (transpose_b ? j * k + p : p * n + j)];
        }
      }
    }
  }
  return {y};
}

OpCase MatMulCase(const std::string& name, const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  return {.name = name,
          .inputs = {{a}, {b}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                return Outs{ops::MatMul(scope, in[0], in[1], {transpose_a, transpose_b})};
              },
          .reference = [=](const Arrays& in) { return Multiply(in, transpose_a, transpose_b); },
          .tolerance = 4};
}

// The kernel of a product and what follows it, whose result `finish` computes from the product and the third input.
OpCase EndCase(const std::string& name, const Attrs& attrs, std::vector<std::vector<Shape>> shapes,
               std::function<Arrays(const Arrays& in, const Array& product)> finish) {
  OpCase one{.name = name,
             .build = [=](const Scope& scope, const Ins& in) { return scope.AddAll(name, in, attrs); },
             .reference =
                 [=](const Arrays& in) {
                   return finish(in, Multiply(in, attrs.Bool("transpose_a"), attrs.Bool("transpose_b"))[0]);
                 },
             .tolerance = 16,
             .gradient = false,
             .thread_dependent = true};
  for (const Shape& shape : shapes[0]) one.inputs.push_back({shape});
  one.more_shapes.assign(shapes.begin() + 1, shapes.end());
  return one;
}

// The GELU with tanh, and its slope.
double Gelu(double x) { return x / (1 + std::exp(-std::sqrt(8 / M_PI) * (x + 0.044715 * x * x * x))); }
double GeluSlope(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = std::tanh(u);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

std::vector<OpCase> EndCases() {
  const auto bias_grad = [](const Arrays& in, const Array& product) {
    const int64_t n = in[1].shape[1];
    Array sums({n});
    for (int64_t i = 0; i < in[1].size(); ++i) sums[i % n] += in[1][i];
    return Arrays{product, sums};
  };
  const auto gelu = [](const Arrays& in, Array x) {
    for (int64_t i = 0; i < x.size(); ++i) x[i] += in[2][i % in[2].size()];
    Array y = x;
    for (int64_t i = 0; i < x.size(); ++i) y[i] = Gelu(x[i]);
    return Arrays{x, y};
  };
  const auto gelu_grad = [](const Arrays& in, Array dx) {
    for (int64_t i = 0; i < dx.size(); ++i) dx[i] *= GeluSlope(in[2][i]);
    return Arrays{dx};
  };
  const Attrs plain = {{"transpose_a", false}, {"transpose_b", false}};
  const Attrs left = {{"transpose_a", true}, {"transpose_b", false}};
  const Attrs right = {{"transpose_a", false}, {"transpose_b", true}};
  return {
      EndCase("MatMulBiasGrad", left, {{{5, 3}, {5, 8}}, {{0, 3}, {0, 2}}, {{1, 1}, {1, 1}}, {{300, 7}, {300, 65}}},
              bias_grad),
      EndCase("MatMulBiasGelu", plain,
              {{{3, 5}, {5, 8}, {8}}, {{0, 3}, {3, 2}, {2}}, {{3, 0}, {0, 2}, {2}}, {{33, 7}, {7, 65}, {65}}}, gelu),
      EndCase("MatMulGeluGrad", right,
              {{{3, 5}, {8, 5}, {3, 8}}, {{0, 3}, {2, 3}, {0, 2}}, {{33, 7}, {65, 7}, {33, 65}}}, gelu_grad)};
}

}  // namespace

std::vector<OpCase> MatMulCases() {
  std::vector<OpCase> cases;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto a = [ta](int64_t m, int64_t k) { return ta ? Shape{k, m} : Shape{m, k}; };
      const auto b = [tb](int64_t k, int64_t n) { return tb ? Shape{n, k} : Shape{k, n}; };
      const std::string suffix = absl::StrCat(ta ? "TransposeA" : "", tb ? "TransposeB" : "");
      cases.push_back(MatMulCase("MatMul" + suffix, a(3, 5), b(5, 4), ta, tb));
      cases.back().more_shapes = {{a(1, 1), b(1, 1)},
                                  {a(2, 0), b(0, 3)},
                                  {a(0, 2), b(2, 3)},
                                  {a(67, 33), b(33, 71)},
                                  {a(128, 150), b(150, 70)}};
      cases.back().unknown_axes = {0, 1};
    }
  }
  cases.push_back(MatMulCase("MatMulBatches", {2, 1, 3, 2}, {4, 5, 2}, false, true));
  cases.push_back(MatMulCase("MatMulOneRightForAll", {3, 2, 4}, {4, 3}, false, false));
  cases.back().more_shapes = {{{0, 2, 4}, {4, 3}}, {{5, 40, 30}, {30, 50}}};
  cases.push_back(MatMulCase("MatMulIntegers", {3, 5}, {2, 5}, false, true));
  cases.back().dtypes = {DType::kInt32, DType::kInt64};
  for (Input& input : cases.back().inputs) input.low = -9, input.high = 10;
  for (const OpCase& end : EndCases()) cases.push_back(end);
  return cases;
}

}  // namespace belfry::harness
