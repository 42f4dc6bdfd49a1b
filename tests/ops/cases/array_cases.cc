// Cases of ops that rearrange, join, split and pad tensors.
#include "ops/array.h"
#include "tests/ops/cases/array_inputs.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/indexing.h"

namespace belfry::harness {
namespace {

void AddTranspose(std::vector<OpCase>& cases) {
  cases.push_back({.name = "TransposeReversesAxes",
                   .inputs = {Any({3, 5})},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Transpose(scope, in[0])}; },
                   .reference =
                       [](const Arrays& in) {
                         return Arrays{Generate({in[0].shape[1], in[0].shape[0]}, [&](const Index& i) {
                           return At(in[0], {i[1], i[0]});
                         })};
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{1, 1}}, {{0, 4}}, {{67, 131}}},
                   .unknown_axes = {0, 1}});
  cases.push_back({.name = "TransposeToChannelsFirst",
                   .inputs = {Any({2, 3, 4, 5})},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         return Outs{ops::Transpose(scope, in[0], {0, -1, 1, 2})};
                       },
                   .reference =
                       [](const Arrays& in) {
                         const Shape& s = in[0].shape;
                         return Arrays{Generate({s[0], s[3], s[1], s[2]}, [&](const Index& i) {
                           return At(in[0], {i[0], i[2], i[3], i[1]});
                         })};
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{1, 1, 1, 1}}, {{3, 0, 4, 5}}, {{3, 33, 2, 65}}},
                   .unknown_axes = {0, 1, 2, 3}});
  cases.push_back(
      {.name = "TransposeOfRows",
       .inputs = {Any({2, 3, 8})},
       .build =
           [](const Scope& scope, const Ins& in) {
             return Outs{ops::Transpose(scope, in[0], {1, 0, 2})};
           },
       .reference =
           [](const Arrays& in) {
             const Shape& s = in[0].shape;
             return Arrays{Generate({s[1], s[0], s[2]}, [&](const Index& i) { return At(in[0], {i[1], i[0], i[2]}); })};
           },
       .dtypes = kEveryType,
       .more_shapes = {{{3, 4, 1}}, {{3, 0, 2}}, {{30, 70, 16}}},
       .unknown_axes = {0, 1, 2}});
}

void AddJoins(std::vector<OpCase>& cases) {
  cases.push_back({.name = "ConcatAlongTheMiddle",
                   .inputs = {Any({2, 1, 3}), Any({2, 4, 3}), Any({2, 0, 3})},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Concat(scope, in, -2)}; },
                   .reference =
                       [](const Arrays& in) {
                         const Shape& s = in[0].shape;
                         const int64_t first = s[1], second = first + in[1].shape[1];
                         return Arrays{Generate({s[0], second + in[2].shape[1], s[2]}, [&](const Index& i) {
                           const int part = i[1] < first ? 0 : i[1] < second ? 1 : 2;
                           const int64_t offset = part == 0 ? 0 : part == 1 ? first : second;
                           return At(in[static_cast<size_t>(part)], {i[0], i[1] - offset, i[2]});
                         })};
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{0, 1, 3}, {0, 2, 3}, {0, 1, 3}},
                                   {{65, 7, 9}, {65, 1, 9}, {65, 90, 9}},
                                   {{3, 2, 16}, {3, 5, 16}, {3, 1, 16}}},
                   .unknown_axes = {0, 1, 2}});
  std::vector<Input> many;
  for (int64_t i = 0; i < 70; ++i) many.push_back(Any({3, i % 3}));
  cases.push_back({.name = "ConcatOfManyParts",
                   .inputs = many,
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Concat(scope, in, 1)}; },
                   .reference =
                       [](const Arrays& in) {
                         Array whole({3, 69});
                         int64_t begin = 0;
                         for (const Array& part : in) {
                           ForEachIndex(part.shape,
                                        [&](const Index& i) { whole[i[0] * 69 + begin + i[1]] = At(part, i); });
                           begin += part.shape[1];
                         }
                         return Arrays{whole};
                       },
                   .dtypes = kEveryType,
                   .unknown_axes = {}});
  cases.push_back({.name = "StackAlongTheLastAxis",
                   .inputs = {Any({4, 3}), Any({4, 3})},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Stack(scope, in, -1)}; },
                   .reference =
                       [](const Arrays& in) {
                         const Shape& s = in[0].shape;
                         return Arrays{Generate({s[0], s[1], 2}, [&](const Index& i) {
                           return At(in[static_cast<size_t>(i[2])], {i[0], i[1]});
                         })};
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{0, 3}, {0, 3}}, {{1, 1}, {1, 1}}},
                   .unknown_axes = {0, 1}});
}

Arrays Parts(const Array& x, const std::vector<int64_t>& columns) {
  Arrays parts;
  int64_t begin = 0;
  for (const int64_t width : columns) {
    parts.push_back(Generate({x.shape[0], width}, [&](const Index& i) { return At(x, {i[0], begin + i[1]}); }));
    begin += width;
  }
  return parts;
}

void AddSplits(std::vector<OpCase>& cases) {
  cases.push_back({.name = "SplitEvenly",
                   .inputs = {Any({3, 6})},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Split(scope, in[0], 1, 3)}; },
                   .reference =
                       [](const Arrays& in) {
                         const int64_t width = in[0].shape[1] / 3;
                         return Parts(in[0], {width, width, width});
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{0, 6}}, {{5, 0}}, {{1, 3}}},
                   .unknown_axes = {0, 1}});
  cases.push_back({.name = "SplitBySizes",
                   .inputs = {Any({3, 7})},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         return Outs{ops::Split(scope, in[0], -1, std::vector<int64_t>{2, -1, 1})};
                       },
                   .reference =
                       [](const Arrays& in) {
                         return Parts(in[0], {2, in[0].shape[1] - 3, 1});
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{2, 3}}},
                   .unknown_axes = {0, 1}});
  cases.push_back({.name = "SplitLikeOthers",
                   .inputs = {Any({3, 6}), Like({3, 2}), Like({3, 4})},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         const Output a = ops::Cast(scope, in[1], in[0].dtype());
                         const Output b = ops::Cast(scope, in[2], in[0].dtype());
                         return Outs{scope.AddAll("SplitLike", {in[0], a, b}, {{"axis", int64_t{1}}})};
                       },
                   .reference =
                       [](const Arrays& in) {
                         return Parts(in[0], {2, 4});
                       },
                   .dtypes = kEveryType,
                   .unknown_axes = {0, 1}});
  cases.push_back({.name = "UnstackColumns",
                   .inputs = {Any({3, 2})},
                   .build = [](const Scope& scope, const Ins& in) { return Outs{ops::Unstack(scope, in[0], 1, 2)}; },
                   .reference =
                       [](const Arrays& in) {
                         Arrays columns = Parts(in[0], {1, 1});
                         for (Array& column : columns) column.shape = column.shape.Remove(1);
                         return columns;
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{0, 2}}, {{100, 2}}},
                   .unknown_axes = {0, 1}});
}

void AddSlices(std::vector<OpCase>& cases) {
  const auto slice = [](const Scope& scope, Output x) { return ops::Slice(scope, x, {1, 2, 0}, {-1, 3, 2}); };
  cases.push_back({.name = "Slice",
                   .inputs = {Any({3, 6, 2})},
                   .build = [slice](const Scope& scope, const Ins& in) { return Outs{slice(scope, in[0])}; },
                   .reference =
                       [](const Arrays& in) {
                         return Arrays{Generate({in[0].shape[0] - 1, 3, 2}, [&](const Index& i) {
                           return At(in[0], {i[0] + 1, i[1] + 2, i[2]});
                         })};
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{1, 6, 2}}, {{4, 5, 9}}},
                   .unknown_axes = {0, 1, 2}});
  const auto strided = [](const Scope& scope, Output x) {
    return ops::StridedSlice(scope, x, {ops::kSliceEnd, 1}, {-ops::kSliceEnd, -1}, {-2, 3});
  };
  const auto strided_shape = [](const Shape& x) { return Shape({(x[0] + 1) / 2, x[1] < 3 ? 0 : x[1] / 3, x[2]}); };
  cases.push_back({.name = "StridedSlice",
                   .inputs = {Any({5, 8, 2})},
                   .build = [strided](const Scope& scope, const Ins& in) { return Outs{strided(scope, in[0])}; },
                   .reference =
                       [=](const Arrays& in) {
                         const Shape& s = in[0].shape;
                         return Arrays{Generate(strided_shape(s), [&](const Index& i) {
                           return At(in[0], {s[0] - 1 - 2 * i[0], 1 + 3 * i[1], i[2]});
                         })};
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{4, 7, 1}}, {{1, 2, 3}}, {{0, 7, 3}}},
                   .unknown_axes = {0, 1, 2}});
  cases.push_back({.name = "StridedSliceGrad",
                   .inputs = {Any({3, 2, 2}), Like({5, 8, 2})},
                   .build =
                       [strided](const Scope& scope, const Ins& in) {
                         const Output x = ops::Cast(scope, in[1], in[0].dtype());
                         const Output forward = strided(scope, x);
                         return Outs{scope.Add("StridedSliceGrad", {in[0], x}, forward.node->attrs())};
                       },
                   .reference =
                       [](const Arrays& in) {
                         return Arrays{Generate(in[1].shape, [&](const Index& i) {
                           const bool taken = i[0] % 2 == 0 && (i[1] == 1 || i[1] == 4);
                           return taken ? At(in[0], {2 - i[0] / 2, i[1] / 3, i[2]}) : 0.0;
                         })};
                       },
                   .dtypes = kEveryType,
                   .unknown_axes = {0, 1, 2}});
  cases.push_back({.name = "SliceGrad",
                   .inputs = {Any({2, 3, 2}), Like({3, 6, 2})},
                   .build =
                       [slice](const Scope& scope, const Ins& in) {
                         const Output x = ops::Cast(scope, in[1], in[0].dtype());
                         return Outs{scope.Add("SliceGrad", {in[0], x}, slice(scope, x).node->attrs())};
                       },
                   .reference =
                       [](const Arrays& in) {
                         return Arrays{Generate(in[1].shape, [&](const Index& i) {
                           const bool taken = i[0] >= 1 && i[1] >= 2 && i[1] < 5;
                           return taken ? At(in[0], {i[0] - 1, i[1] - 2, i[2]}) : 0.0;
                         })};
                       },
                   .dtypes = kEveryType,
                   .unknown_axes = {0, 1, 2}});
}

void AddPads(std::vector<OpCase>& cases) {
  cases.push_back({.name = "PadAndCrop",
                   .inputs = {Any({3, 4, 2})},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         return Outs{ops::Pad(scope, in[0], {{1, 2}, {-1, 3}, {0, 0}}, 1)};
                       },
                   .reference =
                       [](const Arrays& in) {
                         const Shape& s = in[0].shape;
                         return Arrays{Generate({s[0] + 3, s[1] + 2, s[2]}, [&](const Index& i) {
                           const bool inside = i[0] >= 1 && i[0] < s[0] + 1 && i[1] + 1 < s[1];
                           return inside ? At(in[0], {i[0] - 1, i[1] + 1, i[2]}) : 1.0;
                         })};
                       },
                   .dtypes = kEveryType,
                   .more_shapes = {{{0, 4, 2}}, {{1, 1, 1}}, {{3, 4, 0}}, {{5, 70, 3}}, {{3, 9, 32}}},
                   .unknown_axes = {0, 1, 2}});
}

}  // namespace

std::vector<OpCase> ArrayCases() {
  std::vector<OpCase> cases;
  AddTranspose(cases);
  AddJoins(cases);
  AddSplits(cases);
  AddSlices(cases);
  AddPads(cases);
  return cases;
}

}  // namespace belfry::harness
