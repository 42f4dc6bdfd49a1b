// Cases of ops that rearrange, join, split and pad tensors.
#include "ops/array.h"
#include "tests/ops/cases/array_inputs.h"
#include "tests/ops/cases/cases.h"
#include "tests/ops/harness/indexing.h"

namespace belfry::harness {
namespace {

void AddTranspose(std::vector<OpCase>& cases) {
  cases.push_back(OfEveryType(
      "TransposeReversesAxes", {Any({3, 5})},
      [](const Scope& scope, const Ins& in) { return ops::Transpose(scope, in[0]); },
      [](const Arrays& in) {
        return Generate({in[0].shape[1], in[0].shape[0]}, [&](const Index& i) { return At(in[0], {i[1], i[0]}); });
      },
      {{{1, 1}}, {{0, 4}}, {{67, 131}}}, {0, 1}));
  cases.push_back(OfEveryType(
      "TransposeToChannelsFirst", {Any({2, 3, 4, 5})},
      [](const Scope& scope, const Ins& in) {
        return ops::Transpose(scope, in[0], {0, -1, 1, 2});
      },
      [](const Arrays& in) {
        const Shape& s = in[0].shape;
        return Generate({s[0], s[3], s[1], s[2]}, [&](const Index& i) { return At(in[0], {i[0], i[2], i[3], i[1]}); });
      },
      {{{1, 1, 1, 1}}, {{3, 0, 4, 5}}, {{3, 33, 2, 65}}}, {0, 1, 2, 3}));
  cases.push_back(OfEveryType(
      "TransposeOfRows", {Any({2, 3, 8})},
      [](const Scope& scope, const Ins& in) {
        return ops::Transpose(scope, in[0], {1, 0, 2});
      },
      [](const Arrays& in) {
        const Shape& s = in[0].shape;
        return Generate({s[1], s[0], s[2]}, [&](const Index& i) { return At(in[0], {i[1], i[0], i[2]}); });
      },
      {{{3, 4, 1}}, {{3, 0, 2}}, {{30, 70, 16}}}, {0, 1, 2}));
}

void AddJoins(std::vector<OpCase>& cases) {
  cases.push_back(OfEveryType(
      "ConcatAlongTheMiddle", {Any({2, 1, 3}), Any({2, 4, 3}), Any({2, 0, 3})},
      [](const Scope& scope, const Ins& in) { return ops::Concat(scope, in, -2); },
      [](const Arrays& in) {
        const Shape& s = in[0].shape;
        const int64_t first = s[1], second = first + in[1].shape[1];
        return Generate({s[0], second + in[2].shape[1], s[2]}, [&](const Index& i) {
          const int part = i[1] < first ? 0 : i[1] < second ? 1 : 2;
          const int64_t offset = part == 0 ? 0 : part == 1 ? first : second;
          return At(in[static_cast<size_t>(part)], {i[0], i[1] - offset, i[2]});
        });
      },
      {{{0, 1, 3}, {0, 2, 3}, {0, 1, 3}}, {{65, 7, 9}, {65, 1, 9}, {65, 90, 9}}, {{3, 2, 16}, {3, 5, 16}, {3, 1, 16}}},
      {0, 1, 2}));
  std::vector<Input> many;
  for (int64_t i = 0; i < 70; ++i) many.push_back(Any({3, i % 3}));
  cases.push_back(OfEveryType(
      "ConcatOfManyParts", many, [](const Scope& scope, const Ins& in) { return ops::Concat(scope, in, 1); },
      [](const Arrays& in) {
        Array whole({3, 69});
        int64_t begin = 0;
        for (const Array& part : in) {
          ForEachIndex(part.shape, [&](const Index& i) { whole[i[0] * 69 + begin + i[1]] = At(part, i); });
          begin += part.shape[1];
        }
        return whole;
      },
      {}, {}));
  cases.push_back(OfEveryType(
      "StackAlongTheLastAxis", {Any({4, 3}), Any({4, 3})},
      [](const Scope& scope, const Ins& in) { return ops::Stack(scope, in, -1); },
      [](const Arrays& in) {
        const Shape& s = in[0].shape;
        return Generate({s[0], s[1], 2}, [&](const Index& i) {
          return At(in[static_cast<size_t>(i[2])], {i[0], i[1]});
        });
      },
      {{{0, 3}, {0, 3}}, {{1, 1}, {1, 1}}}, {0, 1}));
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
  cases.push_back(OfEveryType(
      "SplitEvenly", {Any({3, 6})}, [](const Scope& scope, const Ins& in) { return ops::Split(scope, in[0], 1, 3); },
      [](const Arrays& in) {
        const int64_t width = in[0].shape[1] / 3;
        return Parts(in[0], {width, width, width});
      },
      {{{0, 6}}, {{5, 0}}, {{1, 3}}}, {0, 1}));
  cases.push_back(OfEveryType(
      "SplitBySizes", {Any({3, 7})},
      [](const Scope& scope, const Ins& in) {
        return ops::Split(scope, in[0], -1, std::vector<int64_t>{2, -1, 1});
      },
      [](const Arrays& in) {
        return Parts(in[0], {2, in[0].shape[1] - 3, 1});
      },
      {{{2, 3}}}, {0, 1}));
  cases.push_back(OfEveryType(
      "SplitLikeOthers", {Any({3, 6}), Like({3, 2}), Like({3, 4})},
      [](const Scope& scope, const Ins& in) {
        const Output a = ops::Cast(scope, in[1], in[0].dtype());
        const Output b = ops::Cast(scope, in[2], in[0].dtype());
        return scope.AddAll("SplitLike", {in[0], a, b}, {{"axis", int64_t{1}}});
      },
      [](const Arrays& in) {
        return Parts(in[0], {2, 4});
      },
      {}, {0, 1}));
  cases.push_back(OfEveryType(
      "UnstackColumns", {Any({3, 2})},
      [](const Scope& scope, const Ins& in) { return ops::Unstack(scope, in[0], 1, 2); },
      [](const Arrays& in) {
        Arrays columns = Parts(in[0], {1, 1});
        for (Array& column : columns) column.shape = column.shape.Remove(1);
        return columns;
      },
      {{{0, 2}}, {{100, 2}}}, {0, 1}));
}

void AddSlices(std::vector<OpCase>& cases) {
  const auto slice = [](const Scope& scope, Output x) { return ops::Slice(scope, x, {1, 2, 0}, {-1, 3, 2}); };
  cases.push_back(OfEveryType(
      "Slice", {Any({3, 6, 2})}, [slice](const Scope& scope, const Ins& in) { return slice(scope, in[0]); },
      [](const Arrays& in) {
        return Generate({in[0].shape[0] - 1, 3, 2}, [&](const Index& i) {
          return At(in[0], {i[0] + 1, i[1] + 2, i[2]});
        });
      },
      {{{1, 6, 2}}, {{4, 5, 9}}}, {0, 1, 2}));
  const auto strided = [](const Scope& scope, Output x) {
    return ops::StridedSlice(scope, x, {ops::kSliceEnd, 1}, {-ops::kSliceEnd, -1}, {-2, 3});
  };
  const auto strided_shape = [](const Shape& x) { return Shape({(x[0] + 1) / 2, x[1] < 3 ? 0 : x[1] / 3, x[2]}); };
  cases.push_back(OfEveryType(
      "StridedSlice", {Any({5, 8, 2})}, [strided](const Scope& scope, const Ins& in) { return strided(scope, in[0]); },
      [=](const Arrays& in) {
        const Shape& s = in[0].shape;
        return Generate(strided_shape(s), [&](const Index& i) {
          return At(in[0], {s[0] - 1 - 2 * i[0], 1 + 3 * i[1], i[2]});
        });
      },
      {{{4, 7, 1}}, {{1, 2, 3}}, {{0, 7, 3}}}, {0, 1, 2}));
  cases.push_back(OfEveryType(
      "StridedSliceGrad", {Any({3, 2, 2}), Like({5, 8, 2})},
      [strided](const Scope& scope, const Ins& in) {
        const Output x = ops::Cast(scope, in[1], in[0].dtype());
        const Output forward = strided(scope, x);
        return scope.Add("StridedSliceGrad", {in[0], x}, forward.node->attrs());
      },
      [](const Arrays& in) {
        return Generate(in[1].shape, [&](const Index& i) {
          const bool taken = i[0] % 2 == 0 && (i[1] == 1 || i[1] == 4);
          return taken ? At(in[0], {2 - i[0] / 2, i[1] / 3, i[2]}) : 0.0;
        });
      },
      {}, {0, 1, 2}));
  cases.push_back(OfEveryType(
      "SliceGrad", {Any({2, 3, 2}), Like({3, 6, 2})},
      [slice](const Scope& scope, const Ins& in) {
        const Output x = ops::Cast(scope, in[1], in[0].dtype());
        return scope.Add("SliceGrad", {in[0], x}, slice(scope, x).node->attrs());
      },
      [](const Arrays& in) {
        return Generate(in[1].shape, [&](const Index& i) {
          const bool taken = i[0] >= 1 && i[1] >= 2 && i[1] < 5;
          return taken ? At(in[0], {i[0] - 1, i[1] - 2, i[2]}) : 0.0;
        });
      },
      {}, {0, 1, 2}));
}

void AddPads(std::vector<OpCase>& cases) {
  cases.push_back(OfEveryType(
      "PadAndCrop", {Any({3, 4, 2})},
      [](const Scope& scope, const Ins& in) {
        return ops::Pad(scope, in[0], {{1, 2}, {-1, 3}, {0, 0}}, 1);
      },
      [](const Arrays& in) {
        const Shape& s = in[0].shape;
        return Generate({s[0] + 3, s[1] + 2, s[2]}, [&](const Index& i) {
          const bool inside = i[0] >= 1 && i[0] < s[0] + 1 && i[1] + 1 < s[1];
          return inside ? At(in[0], {i[0] - 1, i[1] + 1, i[2]}) : 1.0;
        });
      },
      {{{0, 4, 2}}, {{1, 1, 1}}, {{3, 4, 0}}, {{5, 70, 3}}, {{3, 9, 32}}}, {0, 1, 2}));
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
