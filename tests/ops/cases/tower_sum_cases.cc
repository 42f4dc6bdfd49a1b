// Ops that add up gradients of several towers, and count updates.
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/graph.h"
#include "ops/array.h"
#include "ops/training.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

// Rows of a few indices, so that there are duplicates, and of negative ones.
std::vector<OpCase> SumRowsCases() {
  std::vector<OpCase> cases;
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    OpCase sum{.name = index == DType::kInt32 ? "SumRows" : "SumRowsInt64",
               .inputs = {{{9, 5}}, {.shape = {9}, .low = -2, .high = 4, .dtype = index}}};
    sum.build = [](const Scope& scope, const Ins& in) {
      const ops::Gradient made = ops::SumRows(scope, in[0], in[1]);
      return Outs{made.value, made.indices};
    };
    sum.reference = [](const Arrays& in) {
      const Array& indices = in[1];
      Array rows = in[0], kept = indices;
      const int64_t width = indices.size() == 0 ? 0 : rows.size() / indices.size();
      for (int64_t k = 0; k < indices.size(); ++k) {
        int64_t first = 0;
        while (indices[first] != indices[k]) ++first;
        if (indices[k] >= 0 && first == k) continue;
        for (int64_t c = 0; c < width; ++c) {
          if (indices[k] >= 0) rows[first * width + c] += in[0][k * width + c];
          rows[k * width + c] = 0;
        }
        kept[k] = -1;
      }
      return Arrays{rows, kept};
    };
    sum.more_shapes = {{{0, 3}, {0}}, {{1}, {1}}, {{3, 0}, {3}}, {{300, 2, 67}, {300}}};
    sum.gradient = false;
    sum.unknown_axes = {};
    sum.tolerance = 30;  // 16-bit types: many rows are added up
    cases.push_back(sum);
  }
  return cases;
}

// Rows of four towers, of which one has weight 0 and NaN; with equal weights, and not.
std::vector<OpCase> MeanRowsCases() {
  std::vector<OpCase> cases;
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    const bool equal = index == DType::kInt64;
    OpCase mean{.name = equal ? "MeanRowsEqual" : "MeanRows",
                .inputs = {{{9, 5}},
                           {.shape = {9}, .low = -2, .high = 4, .dtype = index},
                           {.shape = {9}, .low = 0, .high = 3, .dtype = index}}};
    const std::vector<float> weights = equal ? std::vector<float>{3, 3, 3, 3} : std::vector<float>{0.5, 0, 3, 1.25};
    mean.build = [weights](const Scope& scope, const Ins& in) {
      const Output w = ops::Const(scope, Tensor::Of<float>(absl::MakeConstSpan(weights), {4}));
      const ops::Gradient made = ops::MeanRows(scope, in[0], in[1], in[2], w);
      return Outs{made.value, made.indices};
    };
    mean.reference = [weights](const Arrays& in) {
      Array rows = in[0], kept = in[1];
      const int64_t count = kept.size(), width = count == 0 ? 0 : rows.size() / count;
      double total = 0;
      for (const float w : weights) total += w;
      std::map<int64_t, int64_t> first;
      for (int64_t i = 0; i < rows.size(); ++i) rows[i] = 0;
      for (int64_t k = 0; k < count; ++k) {
        const double weight = weights[static_cast<size_t>(in[2][k])];
        kept[k] = -1;
        if (in[1][k] < 0 || weight == 0) continue;
        const auto [at, added] = first.try_emplace(static_cast<int64_t>(in[1][k]), k);
        if (added) kept[k] = in[1][k];
        for (int64_t c = 0; c < width; ++c) rows[at->second * width + c] += weight / total * in[0][k * width + c];
      }
      return Arrays{rows, kept};
    };
    mean.more_shapes = {{{0, 3}, {0}, {0}}, {{1}, {1}, {1}}, {{3, 0}, {3}, {3}}, {{300, 2, 67}, {300}, {300}}};
    mean.gradient = false;
    mean.unknown_axes = {};
    mean.tolerance = 30;  // 16-bit types: many rows are added up
    cases.push_back(mean);
  }
  return cases;
}

// Rows of indices that differ, and of negative ones.
std::vector<OpCase> DenseRowsCases() {
  std::vector<OpCase> cases;
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    OpCase dense{.name = index == DType::kInt32 ? "DenseRows" : "DenseRowsInt64",
                 .inputs = {{{5, 3}}, {.shape = {5}, .dtype = index, .values = {6, -1, 0, 3, -1}}}};
    dense.build = [](const Scope& scope, const Ins& in) {
      const ops::DenseGradient made = ops::DenseRows(scope, {in[0], in[1]}, 7);
      return Outs{made.value, made.touched};
    };
    dense.reference = [](const Arrays& in) {
      const int64_t width = in[0].size() / in[1].size();
      Array value(width == 3 ? Shape{7, 3} : Shape{7, 2, 4}, 0), touched({7}, 0);
      for (int64_t k = 0; k < in[1].size(); ++k) {
        if (in[1][k] < 0) continue;
        touched[static_cast<int64_t>(in[1][k])] = 1;
        for (int64_t c = 0; c < width; ++c) value[static_cast<int64_t>(in[1][k]) * width + c] = in[0][k * width + c];
      }
      return Arrays{value, touched};
    };
    dense.gradient = false;
    dense.unknown_axes = {};
    cases.push_back(dense);
  }
  // Whole rows, and elements that begin and end within one.
  for (const auto& [width, begin, size] : {std::array<int64_t, 3>{1, 0, 6}, {4, 5, 14}, {4, 23, 1}, {3, 2, 0}}) {
    OpCase touched{.name = absl::StrCat("TouchedIndices", width, "_", begin),
                   .inputs = {{.shape = {6}, .values = {1, 0, 0.5, 0, 0, 2}}}};
    touched.build = [width = width, begin = begin, size = size](const Scope& scope, const Ins& in) {
      return Outs{ops::TouchedIndices(scope, in[0], width, begin, size)};
    };
    touched.reference = [width = width, begin = begin, size = size](const Arrays& in) {
      Array indices({size}, -1);
      for (int64_t i = 0; i < size; ++i) {
        if (in[0][(begin + i) / width] > 0) indices[i] = static_cast<double>(i);
      }
      return Arrays{indices};
    };
    touched.dtypes = {DType::kFloat32};
    touched.gradient = false;
    touched.unknown_axes = {};
    cases.push_back(touched);
  }
  return cases;
}

// Sums of towers' values: the second is added to the first, the fourth to the third and to both, and the last to all
// that wait.
std::vector<OpCase> SeriesCases() {
  std::vector<OpCase> cases;
  struct Place {
    int index, series;
    double weight;
    int from[2], to;  // the sums that the value is added to, -1: none, and the one that this makes
  };
  for (const Place& place :
       {Place{0, 4, 0.75, {-1, -1}, 0}, Place{1, 4, 0.75, {0, -1}, 1}, Place{2, 4, 0.75, {-1, -1}, 0},
        Place{3, 4, 0.75, {0, 1}, 0}, Place{1, 4, 0, {0, -1}, 1}, Place{2, 3, 0.75, {1, -1}, 0}}) {
    OpCase add{.name = absl::StrCat("AddToSeries", place.index, "Of", place.series, place.weight == 0 ? "Weight0" : ""),
               .inputs = {{.shape = {2, 3, 5}, .variable = true}, {{3, 5}}}};
    add.build = [=](const Scope& scope, const Ins& in) {
      return Outs{ops::AddToSeries(scope, scope.graph().VariableOf(*in[0].node), in[1],
                                   ops::Const(scope, static_cast<float>(place.weight)),
                                   ops::Const<int64_t>(scope, place.index), place.series)};
    };
    add.reference = [=](const Arrays& in) {
      Array sums = in[0];
      const int64_t n = in[1].size();
      for (int64_t i = 0; i < n; ++i) {
        double value = place.weight == 0 ? 0 : place.weight * in[1][i];
        for (const int from : place.from) value += from < 0 ? 0 : in[0][from * n + i];
        sums[place.to * n + i] = value;
      }
      return Arrays{sums};
    };
    add.dtypes = {DType::kFloat32, DType::kFloat64};  // others have sums of another type: tests/models/towers
    add.more_shapes = {{{2, 0}, {0}}, {{2, 1}, {1}}, {{2, 1031}, {1031}}};
    add.gradient = false;
    add.unknown_axes = {};
    cases.push_back(add);
  }
  OpCase row{.name = "AssignRow", .inputs = {{.shape = {4, 3, 2}, .variable = true}, {{3, 2}}}};
  row.build = [](const Scope& scope, const Ins& in) {
    return Outs{ops::AssignRow(scope, scope.graph().VariableOf(*in[0].node), in[1], ops::Const<int64_t>(scope, 2))};
  };
  row.reference = [](const Arrays& in) {
    Array rows = in[0];
    for (int64_t i = 0; i < in[1].size(); ++i) rows[2 * in[1].size() + i] = in[1][i];
    return Arrays{rows};
  };
  row.gradient = false;
  row.unknown_axes = {};
  cases.push_back(row);
  OpCase mean{.name = "DivideSeries", .inputs = {{.shape = {3, 4, 5}, .variable = true}}};
  mean.build = [](const Scope& scope, const Ins& in) {
    return Outs{ops::DivideSeries(scope, scope.graph().VariableOf(*in[0].node), ops::Const(scope, 12.25))};
  };
  mean.reference = [](const Arrays& in) {
    Array sums = in[0];
    for (int64_t i = 0; i < sums.size() / in[0].shape[0]; ++i) sums[i] /= 12.25;
    return Arrays{sums};
  };
  mean.dtypes = {DType::kFloat32, DType::kFloat64};
  mean.more_shapes = {{{2, 0}}, {{1, 1031}}};
  mean.gradient = false;
  mean.unknown_axes = {};
  cases.push_back(mean);
  OpCase total{.name = "TotalWeight", .inputs = {{.shape = {7}, .low = 0, .high = 3}}};
  total.build = [](const Scope& scope, const Ins& in) { return Outs{ops::TotalWeight(scope, in[0], "no weight")}; };
  total.reference = [](const Arrays& in) {
    double sum = 0;
    for (int64_t i = 0; i < in[0].size(); ++i) sum += in[0][i];
    return Arrays{Array({}, sum)};
  };
  total.dtypes = {DType::kFloat32};
  total.gradient = false;
  total.unknown_axes = {};
  cases.push_back(total);
  return cases;
}

std::vector<OpCase> IncrementCases() {
  std::vector<OpCase> cases;
  for (const int condition : {-1, 0, 1}) {
    OpCase count{.name = absl::StrCat("Increment", condition < 0    ? ""
                                                   : condition == 0 ? "Skipped"
                                                                    : "OnlyIf"),
                 .inputs = {{.shape = {}, .dtype = DType::kInt64, .values = {41}, .variable = true}}};
    count.build = [condition](const Scope& scope, const Ins& in) {
      const Scope when = condition < 0 ? scope : scope.OnlyIf(ops::Const<bool>(scope, condition == 1));
      return Outs{ops::Increment(when, scope.graph().VariableOf(*in[0].node))};
    };
    count.reference = [condition](const Arrays&) { return Arrays{Array({}, condition == 0 ? 41 : 42)}; };
    count.dtypes = {DType::kInt64};
    count.gradient = false;
    count.unknown_axes = {};
    cases.push_back(count);
  }
  return cases;
}

}  // namespace

std::vector<OpCase> TowerSumCases() {
  std::vector<OpCase> cases;
  for (const auto& list : {&SumRowsCases, &MeanRowsCases, &DenseRowsCases, &SeriesCases, &IncrementCases}) {
    for (OpCase& op_case : list()) cases.push_back(std::move(op_case));
  }
  return cases;
}

}  // namespace belfry::harness
