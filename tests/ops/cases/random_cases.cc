#include "ops/random.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

using Draw = Output (*)(const Scope& scope, const ops::RandomOptions& options);

// The distributions are tested in tests/ops/random/; these cases test that draws do not depend on threads. The input
// only provides the dtype.
OpCase RandomCase(const std::string& name, Draw draw) {
  return {.name = name,
          .inputs = {{{1}}},
          .build = [=](const Scope& scope,
                       const Ins& in) { return Outs{draw(scope, {.dtype = in[0].dtype(), .key = "case"})}; },
          .gradient = false,
          .unknown_axes = {}};
}

// The same in a tower whose part of the batch starts in the middle of a block of words.
OpCase CountedCase(const std::string& name, Draw draw) {
  return {.name = name,
          .inputs = {{{1}},
                     {.shape = {}, .dtype = DType::kInt64, .values = {7}},
                     {.shape = {}, .dtype = DType::kInt64, .values = {3}}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                return Outs{draw(scope.RandomCounters(in[1], in[2]),
                                 {.dtype = in[0].dtype(), .per_step = true, .key = "case"})};
              },
          .gradient = false,
          .unknown_axes = {}};
}

// The ops that take their extents from another tensor, which builders use only for extents that are not known.
OpCase CaseOfExtents(const std::string& op, Attrs attrs) {
  return {.name = op,
          .inputs = {{{19, 7}},
                     {.shape = {}, .dtype = DType::kInt64, .values = {7}},
                     {.shape = {}, .dtype = DType::kInt64, .values = {3}}},
          .build =
              [=](const Scope& scope, const Ins& in) {
                using Ints = std::vector<int64_t>;
                const Output extents = scope.Add("Extents", {in[0]},
                                                 {{"sizes", Ints{-1, 3}},
                                                  {"inputs", Ints{0, -1}},
                                                  {"axes", Ints{0, 0}},
                                                  {"factors", Ints{1, 1}},
                                                  {"offsets", Ints{0, 0}},
                                                  {"divisors", Ints{1, 1}}});
                Attrs of_type = attrs;
                of_type.Set("T", in[0].dtype());
                of_type.Set("key", std::string("case"));
                of_type.Set("per_step", true);
                return Outs{scope.Add(op, {extents, in[1], in[2]}, of_type)};
              },
          .more_shapes = {{{0, 7}, {}, {}}, {{301, 1}, {}, {}}},
          .gradient = false};
}

void AddDrawsToExtents(std::vector<OpCase>& cases) {
  cases.push_back(CaseOfExtents("RandomUniformTo", {{"low", -1.0}, {"high", 2.0}}));
  cases.push_back(CaseOfExtents("RandomNormalTo", {{"mean", -1.0}, {"stddev", 2.0}}));
  cases.push_back(CaseOfExtents("TruncatedNormalTo", {{"mean", -1.0}, {"stddev", 2.0}}));
  cases.push_back(CaseOfExtents("BernoulliTo", {{"probability", 0.3}}));
  cases.push_back(CaseOfExtents("RandomUniformIntTo", {{"low", int64_t{-5}}, {"high", int64_t{6}}}));
  cases.back().dtypes = {DType::kInt32, DType::kInt64};
  // A builder draws the same with either op.
  cases.push_back({.name = "RandomNormalOfABatch",
                   .inputs = {{{19, 7}}},
                   .build =
                       [](const Scope& scope, const Ins& in) {
                         const ops::RandomOptions options{.dtype = in[0].dtype(), .key = "case"};
                         return Outs{ops::RandomNormal(scope, {ops::Extent::Of(in[0], 0), 3}, -1, 2, options)};
                       },
                   .gradient = false});
}

}  // namespace

std::vector<OpCase> RandomCases() {
  std::vector<OpCase> cases;
  cases.push_back(RandomCase("RandomUniform", [](const Scope& scope, const ops::RandomOptions& options) {
    return ops::RandomUniform(scope, {301, 257}, -1, 2, options);
  }));
  cases.push_back(RandomCase("RandomNormal", [](const Scope& scope, const ops::RandomOptions& options) {
    return ops::RandomNormal(scope, {301, 257}, -1, 2, options);
  }));
  cases.push_back(RandomCase("TruncatedNormal", [](const Scope& scope, const ops::RandomOptions& options) {
    return ops::TruncatedNormal(scope, {301, 257}, -1, 2, options);
  }));
  cases.push_back(RandomCase("Bernoulli", [](const Scope& scope, const ops::RandomOptions& options) {
    return ops::Bernoulli(scope, {301, 257}, 0.3, options);
  }));
  cases.push_back(RandomCase("RandomUniformInt", [](const Scope& scope, const ops::RandomOptions& options) {
    return ops::RandomUniformInt(scope, {301, 257}, -5, 6, options);
  }));
  cases.back().dtypes = {DType::kInt32, DType::kInt64};
  cases.push_back(CountedCase("RandomUniformByCounters", [](const Scope& scope, const ops::RandomOptions& options) {
    return ops::RandomUniform(scope, {19, 7}, -1, 2, options);
  }));
  cases.push_back(CountedCase("RandomNormalByCounters", [](const Scope& scope, const ops::RandomOptions& options) {
    return ops::RandomNormal(scope, {2, 3}, -1, 2, options);
  }));
  AddDrawsToExtents(cases);
  return cases;
}

}  // namespace belfry::harness
