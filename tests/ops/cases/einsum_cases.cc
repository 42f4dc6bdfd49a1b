// Cases of Einsum, LogSumExp, Norm and L2Normalize.
#include <cmath>

#include "absl/strings/str_split.h"
#include "ops/math.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/indexing.h"

namespace belfry::harness {
namespace {

// By the definition: a loop over all letters.
Array Sums(const std::string& equation, const Arrays& in) {
  const std::vector<std::string> sides = absl::StrSplit(equation, "->");
  const std::vector<std::string> inputs = absl::StrSplit(sides[0], ',');
  std::string letters;
  std::vector<int64_t> extents;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t axis = 0; axis < inputs[i].size(); ++axis) {
      if (letters.find(inputs[i][axis]) != std::string::npos) continue;
      letters += inputs[i][axis];
      extents.push_back(in[i].shape[static_cast<int>(axis)]);
    }
  }
  const auto pick = [&](const std::string& labels, const Index& at) {
    Index index;
    for (const char label : labels) index.push_back(at[letters.find(label)]);
    return index;
  };
  Array y(Shape(absl::MakeConstSpan(pick(sides[1], extents))));
  ForEachIndex(Shape(absl::MakeConstSpan(extents)), [&](const Index& at) {
    double product = 1;
    for (size_t i = 0; i < inputs.size(); ++i) product *= At(in[i], pick(inputs[i], at));
    int64_t flat = 0;
    const Index to = pick(sides[1], at);
    for (size_t axis = 0; axis < to.size(); ++axis) flat = flat * y.shape[static_cast<int>(axis)] + to[axis];
    y[flat] += product;
  });
  return y;
}

OpCase EinsumCase(const std::string& name, const std::string& equation, const std::vector<Shape>& shapes,
                  std::vector<std::vector<Shape>> more_shapes = {}) {
  std::vector<Input> inputs;
  for (const Shape& shape : shapes) inputs.push_back({shape});
  return {.name = "Einsum" + name,
          .inputs = inputs,
          .build = [=](const Scope& scope, const Ins& in) { return Outs{ops::Einsum(scope, equation, in)}; },
          .reference = [=](const Arrays& in) { return Arrays{Sums(equation, in)}; },
          .more_shapes = std::move(more_shapes),
          .tolerance = 8,
          .gradient_tolerance = 4,
          .unknown_axes = {0, 1},
          .thread_dependent = true};
}

OpCase NormCase(const std::string& name, const ops::Axes& axes, bool keep, const Shape& result) {
  return {.name = name,
          .inputs = {{{3, 4, 5}, -2, 2}},
          .build = [=](const Scope& scope, const Ins& in) { return Outs{ops::Norm(scope, in[0], axes, keep)}; },
          .reference =
              [=](const Arrays& in) {
                Array y(result);
                const bool all = axes.all();
                for (int64_t i = 0; i < in[0].size(); ++i) y[all ? 0 : i / 20 * 5 + i % 5] += in[0][i] * in[0][i];
                for (double& sum : y.values) sum = std::sqrt(sum);
                return Arrays{y};
              },
          .tolerance = 4};
}

OpCase L2NormalizeCase() {
  return {.name = "L2Normalize",
          .inputs = {{{3, 4, 5}, -2, 2}},
          .build = [](const Scope& scope, const Ins& in) { return Outs{ops::L2Normalize(scope, in[0], 1)}; },
          .reference =
              [](const Arrays& in) {
                Array y = in[0], squares({3, 5});
                for (int64_t i = 0; i < y.size(); ++i) squares[i / 20 * 5 + i % 5] += y[i] * y[i];
                for (int64_t i = 0; i < y.size(); ++i) y[i] /= std::sqrt(squares[i / 20 * 5 + i % 5]);
                return Arrays{y};
              },
          .tolerance = 4};
}

OpCase LogSumExpCase(const std::string& name, const ops::Axes& axes, bool keep, const Shape& result) {
  return {.name = name,
          .inputs = {{{3, 4, 5}, -2, 2}},
          .build = [=](const Scope& scope, const Ins& in) { return Outs{ops::LogSumExp(scope, in[0], axes, keep)}; },
          .reference =
              [=](const Arrays& in) {
                Array y(result);
                const bool all = axes.all();
                for (int64_t i = 0; i < in[0].size(); ++i) y[all ? 0 : i / 20 * 5 + i % 5] += std::exp(in[0][i]);
                for (double& sum : y.values) sum = std::log(sum);
                return Arrays{y};
              },
          .tolerance = 4};
}

}  // namespace

std::vector<OpCase> EinsumCases() {
  return {EinsumCase("Attention", "bthd,bshd->bhts", {{2, 3, 2, 4}, {2, 5, 2, 4}},
                     {{{0, 3, 2, 4}, {0, 5, 2, 4}}, {{1, 1, 1, 1}, {1, 1, 1, 1}}}),
          EinsumCase("MatrixProduct", "ij,jk->ik", {{3, 4}, {4, 5}}, {{{3, 0}, {0, 5}}}),
          EinsumCase("OfTransposed", "ji,kj->ki", {{4, 3}, {5, 4}}),
          EinsumCase("OuterProduct", "i,j->ji", {{3}, {4}}),
          EinsumCase("Elementwise", "abc,cb->cab", {{2, 3, 4}, {4, 3}}),
          EinsumCase("Sum", "abc->ca", {{2, 3, 4}}),
          EinsumCase("Three", "ab,bc,cd->ad", {{2, 3}, {3, 4}, {4, 2}}),
          EinsumCase("ToAScalar", "ab,ab->", {{2, 3}, {2, 3}}),
          EinsumCase("ManyAxes", "abcd,befc->adfe", {{2, 3, 2, 4}, {3, 2, 3, 2}}),
          LogSumExpCase("LogSumExp", 1, false, {3, 5}),
          LogSumExpCase("LogSumExpKeepsAxes", -2, true, {3, 1, 5}),
          LogSumExpCase("LogSumExpOfAll", {}, false, {}),
          NormCase("Norm", 1, false, {3, 5}),
          NormCase("NormKeepsAxes", -2, true, {3, 1, 5}),
          NormCase("NormOfAll", {}, false, {}),
          L2NormalizeCase()};
}

}  // namespace belfry::harness
