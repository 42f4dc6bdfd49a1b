// Random tensors, counter-based (framework/base/philox.h): each element is a pure function of (seed, key, step, index),
// so replicas of a variable start alike and results depend on neither threads nor towers. None is differentiable.
//
// Extents are numbers or those of tensors, such as the number of examples of a batch: RandomNormal(scope,
// {Extent::Of(x, 0), 64}). None may be -1.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "ops/extents.h"

namespace belfry::ops {

// Options common to all ops of this header.
//
// The step is the scope's step counter (Scope::RandomCounters) if there is one, otherwise a count of the session's
// runs. With a first-example counter as well, the leading axis counts examples: the tensor is rows [first_example,
// first_example + N) of the one that a single tower would draw for the whole batch.
struct RandomOptions {
  DType dtype = DType::kFloat32;
  bool per_step = true;  // false: the same tensor in every run
  std::string key = {};  // distinguishes ops of one seed; if empty, RandomKeyName(scope, op)
};

// Uniform in [low, high), in every dtype; `low` is rounded to it. low > high, or one that the dtype cannot hold, is an
// error of the node, and so is a mean or stddev of the normal distributions. Here and there, one key gives the same
// numbers in every dtype, up to its precision.
Output RandomUniform(OpScope scope, const Extents& extents, double low = 0, double high = 1,
                     const RandomOptions& options = {});

// Uniform among the integers low ... high - 1 (int32 or int64). low >= high is an error of the node.
Output RandomUniformInt(OpScope scope, const Extents& extents, int64_t low, int64_t high,
                        const RandomOptions& options = {.dtype = DType::kInt64});

// Normal, by the quantile function of one uniform word per element; float32 reaches 6.3 standard deviations.
Output RandomNormal(OpScope scope, const Extents& extents, double mean = 0, double stddev = 1,
                    const RandomOptions& options = {});

// Normal, conditioned on lying within two standard deviations of the mean: the distribution that redrawing gives.
Output TruncatedNormal(OpScope scope, const Extents& extents, double mean = 0, double stddev = 1,
                       const RandomOptions& options = {});

// 1 with the given probability, otherwise 0 (floating-point dtypes).
Output Bernoulli(OpScope scope, const Extents& extents, double probability, const RandomOptions& options = {});

// One class for each row of logits [..., classes], drawn with the probabilities softmax(logits): [...], int32 or int64.
// A class with a logit of -inf is not drawn, unless all are. Not differentiable.
Output Categorical(OpScope scope, Output logits, const RandomOptions& options = {.dtype = DType::kInt64});

// A key for the next random op of this name in this scope; no key is given twice in a graph. With a first-example
// counter the key starts with Scope::random_path(), so that all towers draw parts of one tensor.
std::string RandomKeyName(const Scope& scope, absl::string_view op);

}  // namespace belfry::ops
