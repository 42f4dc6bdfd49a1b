#include "ops/random.h"
#include "tests/ops/cases/cases.h"

namespace belfry::harness {
namespace {

using Draw = Output (*)(const Scope& scope, const ops::RandomOptions& options);

// What is drawn is tested in tests/ops/random/; here, that it does not depend on threads. The input gives the dtype
// only.
OpCase RandomCase(const std::string& name, Draw draw) {
  return {.name = name,
          .inputs = {{{1}}},
          .build = [=](const Scope& scope,
                       const Ins& in) { return Outs{draw(scope, {.dtype = in[0].dtype(), .key = "case"})}; },
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
  return cases;
}

}  // namespace belfry::harness
