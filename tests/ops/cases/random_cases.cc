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
  return cases;
}

}  // namespace belfry::harness
