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
// For x [N], the line weight * x + bias with scalar variables; for x [N, C] with known C, the plane x weight + bias
// with a weight of shape [C, 1]. y [N] holds the numbers to predict; N may be unknown, and x and y have the same
// floating-point dtype. The variables `weight` and `bias` start at 0. All fields are invalid after an error, which
// sticks to the graph.
LinearModel LinearRegression(OpScope scope, Output x, Output y);

}  // namespace belfry::models
