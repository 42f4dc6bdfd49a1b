// Random tensors. Counter-based (framework/base/philox.h): an element is a pure function of (seed, key, step, index),
// so replicas of a variable start alike, and results depend on neither threads nor towers. None is differentiable.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace belfry::ops {

// What every op of this file takes besides its distribution.
//
// The step is the scope's step counter (Scope::RandomCounters) if it has one, else a count of the session's runs. With
// a first-example counter too, the tensor is rows [first_example, first_example + N) of the one that a single tower
// would draw for the whole batch: its leading axis is the example.
struct RandomOptions {
  DType dtype = DType::kFloat32;
  bool per_step = true;  // false: the same tensor in every run
  std::string key;       // what tells this op from others of the same seed; empty: RandomKeyName(scope, op)
};

// Uniform in [low, high); rounding to float16 or bfloat16 may give `high` itself. Here and for the normal distributions
// all dtypes give the same numbers for the same key, each to its precision.
Output RandomUniform(OpScope scope, const Shape& shape, double low = 0, double high = 1,
                     const RandomOptions& options = {});

// Uniform among the integers low ... high - 1 (int32 or int64). REQUIRES, as an error of the node: low < high.
Output RandomUniformInt(OpScope scope, const Shape& shape, int64_t low, int64_t high,
                        const RandomOptions& options = {.dtype = DType::kInt64});

// Normal. The quantile function of one uniform word per element; float32 reaches 6.3 standard deviations.
Output RandomNormal(OpScope scope, const Shape& shape, double mean = 0, double stddev = 1,
                    const RandomOptions& options = {});

// Normal, given that it lies within two standard deviations: the distribution that redrawing gives.
Output TruncatedNormal(OpScope scope, const Shape& shape, double mean = 0, double stddev = 1,
                       const RandomOptions& options = {});

// 1 with this probability, else 0 (floating-point dtypes).
Output Bernoulli(OpScope scope, const Shape& shape, double probability, const RandomOptions& options = {});

// A key for the next random op of this name in this scope, never given twice in a graph. With a first-example counter
// it begins with Scope::random_path(), for all towers then draw parts of one tensor.
std::string RandomKeyName(const Scope& scope, absl::string_view op);

}  // namespace belfry::ops
