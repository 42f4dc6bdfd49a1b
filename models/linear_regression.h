// Linear regression by least squares.
#pragma once

#include "framework/graph/scope.h"
#include "framework/graph/variable.h"

namespace belfry::models {

struct LinearModel {
  Variable weight, bias;
  Output prediction;  // [N]
  Output loss;        // the mean of (prediction - y)^2, a scalar
};
// For x [N] the line weight x + bias, both scalars; for x [N, C], C known, the plane x weight + bias, where weight is
// [C, 1]. y [N] is what to predict; N may be unknown, and x and y have one float dtype. The variables `weight` and
// `bias` start at 0. All invalid after an error, which sticks to the graph.
LinearModel LinearRegression(OpScope scope, Output x, Output y);

}  // namespace belfry::models
