// Cases of ops that look up and add up slices by indices of several axes.
#include "ops/array.h"
#include "tests/ops/cases/array_inputs.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/indexing.h"

namespace belfry::harness {
namespace {

const std::vector<DType> kSummed = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                    DType::kBFloat16, DType::kInt32,   DType::kInt64};

Input Below(const Shape& shape, double limit, DType dtype) {
  return {.shape = shape, .low = 0, .high = limit, .dtype = dtype};
}

int64_t IndexAt(const Array& indices, int64_t row, int64_t axis) {
  return static_cast<int64_t>(indices[row * indices.shape[-1] + axis]);
}

OpCase GatherPairs(const std::string& name, DType index_type) {
  return {.name = name,
          .inputs = {Any({3, 4, 2}), Below({5, 2}, 3, index_type)},
          .build = [](const Scope& scope, const Ins& in) { return Outs{ops::GatherND(scope, in[0], in[1])}; },
          .reference =
              [](const Arrays& in) {
                return Arrays{Generate({in[1].shape[0], in[0].shape[2]}, [&](const Index& i) {
                  return At(in[0], {IndexAt(in[1], i[0], 0), IndexAt(in[1], i[0], 1), i[1]});
                })};
              },
          .dtypes = kEveryType,
          .more_shapes = {{{3, 3, 1}, {1, 2}}, {{3, 4, 0}, {5, 2}}, {{3, 4, 2}, {0, 2}}, {{5, 7, 9}, {300, 2}}},
          .tolerance = 4};
}

OpCase ScatterPairs(const std::string& name, DType index_type) {
  return {.name = name,
          .inputs = {Below({5, 2}, 3, index_type), {.shape = {5, 2}, .low = 0, .high = 9}, Like({3, 2})},
          .build =
              [](const Scope& scope, const Ins& in) {
                const ops::Extent n = ops::Extent::Of(in[2], 0), width = ops::Extent::Of(in[2], 1);
                return Outs{ops::ScatterND(scope, in[0], in[1], {n, 4, width})};
              },
          .reference =
              [](const Arrays& in) {
                Array y({in[2].shape[0], 4, in[2].shape[1]});
                ForEachIndex(in[1].shape, [&](const Index& i) {
                  y[(IndexAt(in[0], i[0], 0) * 4 + IndexAt(in[0], i[0], 1)) * y.shape[2] + i[1]] += At(in[1], i);
                });
                return Arrays{y};
              },
          .dtypes = kSummed,
          .more_shapes = {{{1, 2}, {1, 1}, {3, 1}},
                          {{0, 2}, {0, 3}, {3, 3}},
                          {{5, 2}, {5, 0}, {3, 0}},
                          {{700, 2}, {700, 5}, {4, 5}}},
          .tolerance = 8};
}

}  // namespace

std::vector<OpCase> IndexCases() {
  std::vector<OpCase> cases = {
      GatherPairs("GatherNDOfInt32", DType::kInt32), GatherPairs("GatherNDOfInt64", DType::kInt64),
      ScatterPairs("ScatterNDOfInt32", DType::kInt32), ScatterPairs("ScatterNDOfInt64", DType::kInt64)};
  cases.push_back(
      {.name = "ScatterNDOfElements",
       .inputs = {Below({2, 3, 1}, 6, DType::kInt32), {.shape = {2, 3}, .low = 0, .high = 9}},
       .build = [](const Scope& scope, const Ins& in) { return Outs{ops::ScatterND(scope, in[0], in[1], Shape({6}))}; },
       .reference =
           [](const Arrays& in) {
             Array y({6});
             for (int64_t i = 0; i < in[1].size(); ++i) y[static_cast<int64_t>(in[0][i])] += in[1][i];
             return Arrays{y};
           },
       .dtypes = kSummed,
       .more_shapes = {{{1, 1, 1}, {1, 1}}, {{0, 3, 1}, {0, 3}}},
       .tolerance = 4});
  cases.push_back(
      {.name = "SegmentSum",
       .inputs = {{.shape = {5, 3}, .low = 0, .high = 9},
                  {.shape = {5}, .low = 0, .high = 4, .dtype = DType::kInt64, .values = {0, 0, 1, 3, 3}}},
       .build = [](const Scope& scope, const Ins& in) { return Outs{ops::SegmentSum(scope, in[0], in[1], 4)}; },
       .reference =
           [](const Arrays& in) {
             Array y({4, in[0].shape[1]});
             ForEachIndex(in[0].shape, [&](const Index& i) {
               y[static_cast<int64_t>(in[1][i[0]]) * y.shape[1] + i[1]] += At(in[0], i);
             });
             return Arrays{y};
           },
       .dtypes = kSummed,
       .more_shapes = {{{1, 1}, {1}}, {{0, 3}, {0}}, {{5, 0}, {5}}, {{1000, 7}, {1000}}},
       .tolerance = 8,
       .unknown_axes = {0, 1}});
  return cases;
}

}  // namespace belfry::harness
