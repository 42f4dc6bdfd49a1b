// Cases of ops that create, repeat, convert, look up and select elements, and of views.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "ops/array.h"
#include "tests/ops/cases/array_inputs.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/indexing.h"

namespace belfry::harness {
namespace {

Input Indices(const Shape& shape, double low, double high, DType dtype) {
  return {.shape = shape, .low = low, .high = high, .dtype = dtype};
}

void AddConstants(std::vector<OpCase>& cases) {
  cases.push_back({.name = "FillWithANumber",
                   .build =
                       [](const Scope& scope, const Ins&) {
                         return Outs{ops::Fill(scope, {2, 3}, -1.5)};
                       },
                   .reference =
                       [](const Arrays&) {
                         return Arrays{Array({2, 3}, -1.5)};
                       },
                   .dtypes = {DType::kFloat32},
                   .gradient = false});
  cases.push_back({.name = "RangeOfNumbers",
                   .build = [](const Scope& scope, const Ins&) { return Outs{ops::Range(scope, 2, 9, 3)}; },
                   .reference =
                       [](const Arrays&) {
                         return Arrays{
                             Generate({3}, [](const Index& i) { return 2.0 + 3.0 * static_cast<double>(i[0]); })};
                       },
                   .dtypes = {DType::kInt32},
                   .gradient = false});
  cases.push_back({.name = "ZerosOnesAndShapeOfATensor",
                   .inputs = {Any({4, 3})},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         return Outs{ops::ZerosLike(scope, in[0]), ops::OnesLike(scope, in[0]),
                                     ops::ShapeOf(scope, in[0]), ops::ShapeOf(scope, in[0], DType::kInt64)};
                       },
                   .reference =
                       [](const Arrays& in) {
                         const Array dims = Generate({2}, [&](const Index& i) {
                           return static_cast<double>(in[0].shape[static_cast<int>(i[0])]);
                         });
                         return Arrays{Array(in[0].shape, 0), Array(in[0].shape, 1), dims, dims};
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{0, 3}}, {{1, 1}}},
                   .gradient = false,
                   .unknown_axes = {0, 1}});
}

void AddCasts(std::vector<OpCase>& cases) {
  for (const DType to : kAllDTypes) {
    const bool floating = IsFloating(to);
    cases.push_back({.name = absl::StrCat("CastTo", DTypeName(to)),
                     .inputs = {{.shape = {3, 5}, .low = 0, .high = 200}},
                     .build = [to](const Scope& scope, const Ins& in) { return Outs{ops::Cast(scope, in[0], to)}; },
                     .reference =
                         [=](const Arrays& in) {
                           return Arrays{Generate(in[0].shape, [&](const Index& i) {
                             const double x = At(in[0], i);
                             return floating ? x : to == DType::kBool ? (x != 0) : std::trunc(x);
                           })};
                         },
                     .dtypes = kEveryType,
                     .more_shapes = {{{0, 5}}, {{1, 1}}, {{33, 67}}},
                     // Finite differences of values rounded to a narrow type are meaningless.
                     .gradient = to == DType::kFloat64});
  }
}

void AddViews(std::vector<OpCase>& cases) {
  const auto same_elements = [](const Shape& shape) {
    return [shape](const Arrays& in) {
      Array y = in[0];
      y.shape = shape;
      return Arrays{y};
    };
  };
  const auto view = [&](absl::string_view name, const Shape& from, const Shape& to, auto build) {
    cases.push_back(OfEveryType(
        std::string(name), {Any(from)}, [build](const Scope& scope, const Ins& in) { return build(scope, in[0]); },
        same_elements(to)));
  };
  view("Identity", {3}, {3}, [](const Scope& s, Output x) { return ops::Identity(s, x); });
  view("ReshapeFlattens", {2, 3, 4}, {2, 12}, [](const Scope& s, Output x) { return ops::Reshape(s, x, {-1, 12}); });
  view("ExpandDims", {4, 5}, {4, 1, 5}, [](const Scope& s, Output x) { return ops::ExpandDims(s, x, 1); });
  view("Squeeze", {4, 1, 5, 1}, {4, 5}, [](const Scope& s, Output x) { return ops::Squeeze(s, x, {1, -1}); });
  cases.push_back(OfEveryType(
      "FlatSlice", {Any({3, 70})},
      [](const Scope& scope, const Ins& in) { return ops::FlatSlice(scope, in[0], 64, 77); },
      [](const Arrays& in) {
        Array y = in[0];
        y.shape = {77};
        y.values.assign(in[0].values.begin() + 64, in[0].values.begin() + 64 + 77);
        return y;
      },
      {}, {}));
  view("MergeAxes", {2, 3, 4, 5}, {2, 12, 5}, [](const Scope& s, Output x) { return ops::MergeAxes(s, x, 1, -2); });
  cases.push_back(OfEveryType("ReshapeToExtentsOfOthers",
                              {Any({6, 8}), Like({3, 4}), {.shape = {4, 1}, .dtype = DType::kInt32}},
                              [](const Scope& scope, const Ins& in) {
                                const ops::Extent n = ops::Extent::Of(in[1], 0), m = ops::Extent::Of(in[2], -2);
                                return ops::Reshape(scope, in[0], {n * 2 - 2, m, -1});
                              },
                              same_elements({4, 4, 3}), {}, {0, 1}));
  cases.push_back(OfEveryType("ReshapeLikeAnother", {Any({6, 2}), Like({3, 4})},
                              [](const Scope& scope, const Ins& in) { return ops::ReshapeLike(scope, in[0], in[1]); },
                              same_elements({3, 4}), {}, {0, 1}));
}

void AddRepeats(std::vector<OpCase>& cases) {
  const auto stretched = [](const Array& x, const Shape& shape) {
    return Generate(shape, [&](const Index& i) { return AtBroadcast(x, i); });
  };
  cases.push_back(OfEveryType(
      "BroadcastToAShape", {Any({3, 1, 2})},
      [](const Scope& scope, const Ins& in) {
        return ops::BroadcastTo(scope, in[0], {4, -1, 5, 2});
      },
      [=](const Arrays& in) {
        return stretched(in[0], {4, in[0].shape[0], 5, 2});
      },
      {{{0, 1, 1}}, {{40, 5, 1}}}));
  cases.push_back(OfEveryType(
      "BroadcastLikeAnother", {Any({3, 1}), Like({2, 3, 4})},
      [](const Scope& scope, const Ins& in) { return ops::BroadcastLike(scope, in[0], in[1]); },
      [=](const Arrays& in) { return stretched(in[0], in[1].shape); },
      {{{}, {70, 90}}, {{1, 1}, {0, 3}}, {{3, 1}, {3, 300}}}, {0, 1}));
  const auto tiled = [](const Array& x) {
    const Shape& s = x.shape;
    return Generate({2 * s[0], s[1], 3 * s[2]}, [&](const Index& i) {
      return At(x, {i[0] % s[0], i[1], i[2] % s[2]});
    });
  };
  cases.push_back(OfEveryType(
      "Tile", {Any({2, 3, 2})},
      [](const Scope& scope, const Ins& in) {
        return ops::Tile(scope, in[0], {2, 1, 3});
      },
      [=](const Arrays& in) { return tiled(in[0]); }, {{{0, 3, 2}}, {{1, 1, 1}}, {{3, 2, 150}}}, {0, 1, 2}));
  cases.push_back({.name = "TileGrad",
                   .inputs = {{{4, 6}}, Like({2, 2})},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         const Output x = ops::Cast(scope, in[1], in[0].dtype());
                         return Outs{scope.Add("TileGrad", {in[0], x}, {{"multiples", std::vector<int64_t>{2, 3}}})};
                       },
                   .reference =
                       [](const Arrays& in) {
                         Array dx(in[1].shape);
                         const int64_t rows = dx.shape[0], columns = dx.shape[1];
                         ForEachIndex(in[0].shape, [&](const Index& i) {
                           dx[i[0] % rows * columns + i[1] % columns] += At(in[0], i);
                         });
                         return Arrays{dx};
                       },
                   .more_shapes = {{{0, 6}, {0, 2}}, {{2, 450}, {1, 150}}, {{800, 300}, {400, 100}}},
                   .unknown_axes = {0, 1}});
  cases.push_back({.name = "TileGradOfManyTiles",
                   .inputs = {{{20, 3, 24}}, Like({2, 3, 3})},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         const Output x = ops::Cast(scope, in[1], in[0].dtype());
                         std::vector<int64_t> multiples;
                         for (int axis = 0; axis < 3; ++axis) {
                           multiples.push_back(in[0].shape()[axis] / x.shape()[axis]);
                         }
                         return Outs{scope.Add("TileGrad", {in[0], x}, {{"multiples", multiples}})};
                       },
                   .reference =
                       [](const Arrays& in) {
                         Array dx(in[1].shape);
                         const Shape& s = dx.shape;
                         ForEachIndex(in[0].shape, [&](const Index& i) {
                           dx[(i[0] % s[0] * s[1] + i[1] % s[1]) * s[2] + i[2] % s[2]] += At(in[0], i);
                         });
                         return Arrays{dx};
                       },
                   .more_shapes = {{{64, 5, 100}, {1, 5, 1}}, {{90, 70, 3}, {1, 1, 1}}},
                   .tolerance = 8,
                   .unknown_axes = {}});
}

void AddLookups(std::vector<OpCase>& cases) {
  cases.push_back(
      {.name = "GatherRows",
       .inputs = {Any({5, 3}), Indices({2, 3}, 0, 5, DType::kInt32)},
       .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Gather(scope, in[0], in[1])}; },
       .reference =
           [](const Arrays& in) {
             return Arrays{Generate({in[1].shape[0], in[1].shape[1], in[0].shape[1]}, [&](const Index& i) {
               return At(in[0], {static_cast<int64_t>(At(in[1], {i[0], i[1]})), i[2]});
             })};
           },
       .dtypes = kEveryType,
       .more_shapes = {{{5, 1}, {7, 40}}, {{5, 16}, {3, 50}}, {{5, 0}, {2, 3}}, {{5, 3}, {0, 3}}, {{5, 2}, {1, 1}}},
       .tolerance = 4,
       .unknown_axes = {0, 1}});
  const auto gather_columns = [](const Scope& scope, Output x, Output indices) {
    return ops::Gather(scope, x, indices, 1);
  };
  cases.push_back(
      {.name = "GatherColumns",
       .inputs = {Any({2, 4, 3}), Indices({6}, 0, 4, DType::kInt64)},
       .build = [=](const Scope& scope, const Ins& in) { return Outs{gather_columns(scope, in[0], in[1])}; },
       .reference =
           [](const Arrays& in) {
             const Shape& s = in[0].shape;
             return Arrays{Generate({s[0], in[1].size(), s[2]}, [&](const Index& i) {
               return At(in[0], {i[0], static_cast<int64_t>(in[1][i[1]]), i[2]});
             })};
           },
       .dtypes = kEveryType,
       .more_shapes = {{{0, 4, 3}, {2}}, {{1, 4, 1}, {1}}},
       .tolerance = 4,
       .unknown_axes = {0, 1, 2}});
  cases.push_back({.name = "GatherGradAddsUp",
                   .inputs = {{{2, 6, 3}}, Indices({6}, 0, 4, DType::kInt64), Like({2, 4, 3})},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         const Output params = ops::Cast(scope, in[2], in[0].dtype());
                         return Outs{scope.Add("GatherGrad", {in[0], in[1], params}, {{"axis", int64_t{1}}})};
                       },
                   .reference =
                       [](const Arrays& in) {
                         Array dx(in[2].shape);
                         ForEachIndex(in[0].shape, [&](const Index& i) {
                           const auto row = static_cast<int64_t>(in[1][i[1]]);
                           dx[(i[0] * dx.shape[1] + row) * dx.shape[2] + i[2]] += At(in[0], i);
                         });
                         return Arrays{dx};
                       },
                   // A 16-bit running sum of thousands of numbers loses most of its digits.
                   .more_shapes = {{{2, 0, 3}, {0}, {2, 5, 3}},
                                   {{1, 3000, 40}, {3000}, {1, 1000, 40}},
                                   {{1, 4097, 3}, {4097}, {1, 4, 3}}},
                   .tolerance = 8,
                   .unknown_axes = {0, 1, 2}});
  for (const DType type : {DType::kInt32, DType::kInt64, DType::kUInt8}) {
    cases.push_back({.name = absl::StrCat("OneHotOf", DTypeName(type)),
                     .inputs = {Indices({3, 4}, 0, 7, type)},
                     .build =
                         [](const Scope& scope, const Ins& in) {
                           Outs outs = {ops::OneHot(scope, in[0], 5)};
                           for (const DType dtype : kAllDTypes) {
                             outs.push_back(ops::OneHot(scope, in[0], 5,
                                                        {.on_value = 0, .off_value = 1, .axis = 1, .dtype = dtype}));
                           }
                           return outs;
                         },
                     .reference =
                         [](const Arrays& in) {
                           const Shape& s = in[0].shape;
                           Arrays outs = {Generate({s[0], s[1], 5}, [&](const Index& i) {
                             return At(in[0], {i[0], i[1]}) == static_cast<double>(i[2]) ? 1.0 : 0.0;
                           })};
                           outs.resize(1 + std::size(kAllDTypes), Generate({s[0], 5, s[1]}, [&](const Index& i) {
                                         return At(in[0], {i[0], i[2]}) == static_cast<double>(i[1]) ? 0.0 : 1.0;
                                       }));
                           return outs;
                         },
                     .dtypes = {type},
                     .more_shapes = {{{0, 4}}, {{1, 1}}},
                     .gradient = false,
                     .unknown_axes = {0, 1}});
  }
}

void AddSelects(std::vector<OpCase>& cases) {
  const auto add = [&](absl::string_view name, const Shape& condition, const Shape& a, const Shape& b,
                       std::vector<std::vector<Shape>> more) {
    cases.push_back(
        {.name = std::string(name),
         .inputs = {Indices(condition, 0, 2, DType::kBool), Any(a), Any(b)},
         .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Select(scope, in[0], in[1], in[2])}; },
         .reference =
             [](const Arrays& in) {
               const Shape choices = BroadcastShapes(in[1].shape, in[2].shape).value();
               return Arrays{Generate(BroadcastShapes(in[0].shape, choices).value(), [&](const Index& i) {
                 return AtBroadcast(in[0], i) != 0 ? AtBroadcast(in[1], i) : AtBroadcast(in[2], i);
               })};
             },
         .dtypes = kEveryType,
         .more_shapes = std::move(more),
         .tolerance = 2});
  };
  add("SelectOfEqualShapes", {3, 5}, {3, 5}, {3, 5},
      {{{0, 5}, {0, 5}, {0, 5}}, {{}, {}, {}}, {{300, 301}, {300, 301}, {300, 301}}});
  add("SelectBroadcasts", {3, 1}, {2, 3, 4}, {4}, {{{3, 1}, {1, 3, 1}, {}}, {{3, 1, 1}, {1, 2, 1}, {1, 1, 5}}});
  add("SelectByAScalar", {}, {3, 4}, {3, 4}, {{{}, {0, 4}, {1, 4}}});
}

}  // namespace

std::vector<OpCase> ArrayValueCases() {
  std::vector<OpCase> cases;
  AddConstants(cases);
  AddCasts(cases);
  AddViews(cases);
  AddRepeats(cases);
  AddLookups(cases);
  AddSelects(cases);
  return cases;
}

}  // namespace belfry::harness
