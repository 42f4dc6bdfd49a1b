#include <cmath>

#include "framework/graph/scope.h"
#include "framework/graph/variable.h"

namespace belfry {
namespace {

struct Fans {
  double in, out;
};

// The leading axes, a convolution's receptive field, multiply both fans.
Fans FansOf(const Shape& shape) {
  if (shape.rank() == 0) return {1, 1};
  if (shape.rank() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  const auto field = static_cast<double>(shape.elements(0, shape.rank() - 2));
  return {field * static_cast<double>(shape[-2]), field * static_cast<double>(shape[-1])};
}

Attrs RandomAttrs(const Scope& scope, absl::string_view logical_name, DType dtype, const Shape& shape) {
  return {{"T", dtype},
          {"shape", shape},
          {"seed", static_cast<int64_t>(scope.graph().seed())},
          {"key", std::string(logical_name)},
          {"per_step", false}};
}

Output Uniform(const Scope& scope, absl::string_view name, DType dtype, const Shape& shape, double low, double high) {
  Attrs attrs = RandomAttrs(scope, name, dtype, shape);
  attrs.Set("low", low);
  attrs.Set("high", high);
  return scope.Add(OpRole::kRandomUniform, {}, std::move(attrs));
}

Output Normal(const Scope& scope, OpRole op, absl::string_view name, DType dtype, const Shape& shape, double mean,
              double stddev) {
  Attrs attrs = RandomAttrs(scope, name, dtype, shape);
  attrs.Set("mean", mean);
  attrs.Set("stddev", stddev);
  return scope.Add(op, {}, std::move(attrs));
}

}  // namespace

Initializer ConstantInitializer(double value) {
  return [value](const Scope& scope, absl::string_view, DType dtype, const Shape& shape) {
    return scope.Add(OpRole::kFill, {}, {{"T", dtype}, {"shape", shape}, {"value", value}});
  };
}

Initializer ZerosInitializer() { return ConstantInitializer(0); }

Initializer UniformInitializer(double low, double high) {
  return [low, high](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    return Uniform(scope, name, dtype, shape, low, high);
  };
}

Initializer NormalInitializer(double stddev, double mean) {
  return [stddev, mean](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    return Normal(scope, OpRole::kRandomNormal, name, dtype, shape, mean, stddev);
  };
}

Initializer TruncatedNormalInitializer(double stddev, double mean) {
  return [stddev, mean](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    return Normal(scope, OpRole::kTruncatedNormal, name, dtype, shape, mean, stddev);
  };
}

Initializer GlorotUniformInitializer() {
  return [](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    const auto [in, out] = FansOf(shape);
    const double limit = std::sqrt(6 / (in + out));
    return Uniform(scope, name, dtype, shape, -limit, limit);
  };
}

Initializer GlorotNormalInitializer() {
  return [](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    const auto [in, out] = FansOf(shape);
    return Normal(scope, OpRole::kRandomNormal, name, dtype, shape, 0, std::sqrt(2 / (in + out)));
  };
}

Initializer HeNormalInitializer() {
  return [](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    return Normal(scope, OpRole::kRandomNormal, name, dtype, shape, 0, std::sqrt(2 / FansOf(shape).in));
  };
}

Initializer HeUniformInitializer() {
  return [](const Scope& scope, absl::string_view name, DType dtype, const Shape& shape) {
    const double limit = std::sqrt(6 / FansOf(shape).in);
    return Uniform(scope, name, dtype, shape, -limit, limit);
  };
}

}  // namespace belfry
