#include <cmath>
#include <limits>

#include "ops/attention.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The element of x at an index of which the axes that have extent 1 in x are ignored.
double Stretched(const Array& x, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const int64_t i = index[index.size() - static_cast<size_t>(x.shape.rank() - axis)];
    at = at * x.shape[axis] + (x.shape[axis] == 1 ? 0 : i);
  }
  return x[at];
}

// y [N, T, H, D], query by query. `mask` is added, or null.
Array AttentionOf(const Array& q, const Array& k, const Array& v, const Array* mask, bool causal, double scale) {
  const int64_t t = q.shape[1], s = k.shape[1], h = q.shape[2], g = k.shape[2], d = q.shape[3];
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(d));
  Array y(q.shape);
  for (int64_t row = 0; row < q.shape[0] * t * h; ++row) {
    const int64_t n = row / t / h, i = row / h % t, head = row % h, group = head * g / h;
    const auto key_at = [&](int64_t j) { return ((n * s + j) * g + group) * d; };
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = 0; j < (causal ? std::clamp<int64_t>(i + s - t + 1, 0, s) : s); ++j) {
      double score = mask == nullptr ? 0 : Stretched(*mask, {n, head, i, j});
      for (int64_t c = 0; c < d; ++c) score += scale * q[row * d + c] * k[key_at(j) + c];
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    for (size_t j = 0; j < weights.size() && sum > 0; ++j) {
      for (int64_t c = 0; c < d; ++c) {
        y[row * d + c] += weights[j] / sum * v[key_at(static_cast<int64_t>(j)) + c];
      }
    }
  }
  return y;
}

// Heads [begin, begin + count) of x [N, T, H, D].
Array Heads(const Array& x, int64_t begin, int64_t count) {
  Shape shape = x.shape;
  shape.set_dim(2, count);
  Array part(shape);
  const int64_t width = count * shape[3], row = x.shape[2] * shape[3];
  for (int64_t i = 0; i < part.size(); ++i) part[i] = x[i / width * row + begin * shape[3] + i % width];
  return part;
}

OpCase AttentionCase(const std::string& name, const Shape& q, const Shape& k, bool causal, double scale) {
  return {
      .name = name,
      .inputs = {{q, -2, 2}, {k, -2, 2}, {k}},
      .build =
          [=](const Scope& scope, const Ins& in) {
            return Outs{ops::Attention(scope, in[0], in[1], in[2], {.causal = causal, .scale = scale})};
          },
      .reference = [=](const Arrays& in) { return Arrays{AttentionOf(in[0], in[1], in[2], nullptr, causal, scale)}; },
      .tolerance = 4,
      .unknown_axes = {0, 1, 2, 3}};
}

// With a mask that is added, or one of bool.
OpCase MaskedCase(const std::string& name, const Input& mask) {
  OpCase masked = AttentionCase(name, {2, 3, 4, 5}, {2, 6, 2, 5}, false, 0);
  masked.inputs.push_back(mask);
  masked.build = [](const Scope& scope, const Ins& in) {
    return Outs{ops::Attention(scope, in[0], in[1], in[2], {.mask = in[3]})};
  };
  masked.reference = [boolean = mask.dtype == DType::kBool](const Arrays& in) {
    Array added = in[3];
    for (double& x : added.values) {
      if (boolean) x = x == 0 ? -kInfinity : 0;
    }
    return Arrays{AttentionOf(in[0], in[1], in[2], &added, false, 0)};
  };
  masked.unknown_axes = {0, 1};
  return masked;
}

std::vector<OpCase> Masked() {
  // The second query sees no key, the third only one.
  std::vector<double> values(18, 0.5);
  std::fill(values.begin() + 6, values.end(), -kInfinity);
  values[14] = 3;
  values[2] = -1;
  OpCase added = MaskedCase("AttentionAddedMask", {.shape = {3, 6}, .differentiable = false, .values = values});
  added.more_shapes = {{{2, 3, 4, 5}, {2, 6, 2, 5}, {2, 6, 2, 5}, {2, 4, 3, 6}},
                       {{2, 3, 4, 5}, {2, 6, 2, 5}, {2, 6, 2, 5}, {2, 1, 1, 6}},
                       {{1, 70, 1, 8}, {1, 80, 1, 8}, {1, 80, 1, 8}, {70, 1}},
                       {{1, 66, 2, 48}, {1, 65, 1, 48}, {1, 65, 1, 48}, {66, 65}}};
  OpCase boolean = MaskedCase("AttentionBoolMask", {.shape = {2, 1, 3, 6}, .low = 0, .high = 2, .dtype = DType::kBool});
  boolean.more_shapes = {{{1, 20, 1, 3}, {1, 90, 1, 3}, {1, 90, 1, 3}, {90}}};
  return {added, boolean};
}

OpCase SelfCase() {
  return {.name = "SelfAttention",
          .inputs = {{{2, 5, 8, 4}, -2, 2}},
          .build = [](const Scope& scope,
                      const Ins& in) { return Outs{ops::SelfAttention(scope, in[0], 2, {.causal = true})}; },
          .reference =
              [](const Arrays& in) {
                const int64_t h = in[0].shape[2] - 4;
                return Arrays{AttentionOf(Heads(in[0], 0, h), Heads(in[0], h, 2), Heads(in[0], h + 2, 2), nullptr,
                                          /*causal=*/true, 0)};
              },
          .more_shapes =
              {{{1, 1, 6, 16}}, {{0, 3, 6, 2}}, {{1, 100, 6, 19}}, {{2, 9, 6, 8}}, {{1, 65, 6, 64}}, {{1, 33, 6, 200}}},
          .tolerance = 4,
          .unknown_axes = {0, 1, 3}};
}

OpCase RotaryCase(const std::string& name, const ops::RotaryOptions& options) {
  return {.name = name,
          .inputs = {{{2, 3, 4, 6}}},
          .build = [=](const Scope& scope, const Ins& in) { return Outs{ops::Rotary(scope, in[0], options)}; },
          .reference =
              [=](const Arrays& in) {
                Array y = in[0];
                const int64_t d = y.shape[3], width = options.width == 0 ? d : options.width;
                for (int64_t row = 0; row < (d == 0 ? 0 : y.size() / d); ++row) {
                  if (options.heads != 0 && row % y.shape[2] >= options.heads) continue;
                  const auto t = static_cast<double>(row / y.shape[2] % y.shape[1] + options.offset);
                  for (int64_t i = 0; i < width / 2; ++i) {
                    const double angle =
                        t * std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
                    const int64_t a = row * d + (options.interleaved ? 2 * i : i);
                    const int64_t b = options.interleaved ? a + 1 : a + width / 2;
                    y[a] = in[0][a] * std::cos(angle) - in[0][b] * std::sin(angle);
                    y[b] = in[0][b] * std::cos(angle) + in[0][a] * std::sin(angle);
                  }
                }
                return Arrays{y};
              },
          .more_shapes = {{{1, 1, 4, 8}}, {{0, 2, 4, 4}}, {{1, 70, 5, 34}}},
          .tolerance = 2,
          .unknown_axes = {0, 1, 2, 3}};
}

}  // namespace

std::vector<OpCase> AttentionCases() {
  std::vector<OpCase> cases = Masked();
  OpCase plain = AttentionCase("Attention", {2, 5, 4, 3}, {2, 7, 2, 3}, false, 0.5);
  OpCase causal = AttentionCase("AttentionCausal", {2, 5, 4, 3}, {2, 7, 2, 3}, true, 0);
  for (OpCase* each : {&plain, &causal}) {
    each->more_shapes = {
        {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}, {{0, 3, 2, 4}, {0, 3, 2, 4}, {0, 3, 2, 4}},
        {{1, 0, 2, 4}, {1, 3, 2, 4}, {1, 3, 2, 4}}, {{1, 3, 2, 4}, {1, 0, 2, 4}, {1, 0, 2, 4}},
        {{1, 9, 1, 2}, {1, 4, 1, 2}, {1, 4, 1, 2}}, {{1, 70, 2, 16}, {1, 131, 1, 16}, {1, 131, 1, 16}},
        {{2, 9, 4, 8}, {2, 9, 2, 8}, {2, 9, 2, 8}},
    };
  }
  // Widths of each kind that GPUs have kernels for.
  for (const std::vector<Shape>& shapes :
       std::initializer_list<std::vector<Shape>>{{{1, 21, 2, 40}, {1, 37, 1, 40}, {1, 37, 1, 40}},
                                                 {{1, 67, 1, 72}, {1, 66, 1, 72}, {1, 66, 1, 72}},
                                                 {{1, 18, 1, 104}, {1, 35, 1, 104}, {1, 35, 1, 104}},
                                                 {{1, 17, 2, 133}, {1, 34, 1, 133}, {1, 34, 1, 133}}}) {
    causal.more_shapes.push_back(shapes);
  }
  cases.push_back(plain);
  cases.push_back(causal);
  cases.push_back(SelfCase());
  cases.push_back(RotaryCase("Rotary", {}));
  cases.push_back(
      RotaryCase("RotaryInterleaved", {.base = 500, .width = 4, .heads = 3, .offset = 11, .interleaved = true}));
  return cases;
}

}  // namespace belfry::harness
