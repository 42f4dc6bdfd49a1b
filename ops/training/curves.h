// The curves of learning rates (ops/schedule.h), each written once for CPUs and GPUs: plain values constructed from an
// op's attributes, and called with the step and the rate of the schedule below. Real is always double; it is a template
// parameter because member functions of templates may be constexpr without being constant expressions.
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/graph/attr.h"

namespace belfry::ops {

// The fraction of `all` > 0 steps done so far, at most 1.
template <class Real>
constexpr Real PartDone(Real steps, Real all) {
  return (steps < all ? steps : all) / all;
}

// values[i], where i is the number of `count` ascending boundaries that are below the step.
template <class Real>
constexpr Real PiecewiseAt(const int64_t* boundaries, const Real* values, int64_t count, int64_t step) {
  int64_t below = 0;
  while (below < count && boundaries[below] < step) ++below;
  return values[below];
}

// The broken line through `count` points (steps[i], values[i]), at least one, of ascending steps; before the first one
// and after the last one their values.
template <class Real>
constexpr Real InterpolatedAt(const int64_t* steps, const Real* values, int64_t count, int64_t step) {
  int64_t next = 0;
  while (next < count && steps[next] < step) ++next;
  if (next == count) return values[count - 1];
  if (next == 0 || steps[next] == step) return values[next];
  const Real part = static_cast<Real>(step - steps[next - 1]) / static_cast<Real>(steps[next] - steps[next - 1]);
  return values[next - 1] + part * (values[next] - values[next - 1]);
}

template <class Real>
struct ExponentialCurve {
  Real initial, factor, steps;
  bool staircase;

  explicit ExponentialCurve(const Attrs& attrs)
      : initial(attrs.Float("initial")),
        factor(attrs.Float("rate")),
        steps(static_cast<Real>(attrs.Int("decay_steps"))),
        staircase(attrs.Bool("staircase")) {}
  constexpr Real operator()(int64_t step, Real) const {
    const Real exponent = static_cast<Real>(step) / steps;
    return initial * std::pow(factor, staircase ? std::floor(exponent) : exponent);
  }
};

template <class Real>
struct PolynomialCurve {
  Real initial, end, power, steps;

  explicit PolynomialCurve(const Attrs& attrs)
      : initial(attrs.Float("initial")),
        end(attrs.Float("end")),
        power(attrs.Float("power")),
        steps(static_cast<Real>(attrs.Int("decay_steps"))) {}
  constexpr Real operator()(int64_t step, Real) const {
    return (initial - end) * std::pow(1 - PartDone(static_cast<Real>(step), steps), power) + end;
  }
};

template <class Real>
struct RampCurve {
  Real initial, end, power, steps;

  explicit RampCurve(const Attrs& attrs)
      : initial(attrs.Float("initial")),
        end(attrs.Float("end")),
        power(attrs.Float("power")),
        steps(static_cast<Real>(attrs.Int("decay_steps"))) {}
  constexpr Real operator()(int64_t step, Real) const {
    return initial + (end - initial) * std::pow(PartDone(static_cast<Real>(step), steps), power);
  }
};

template <class Real>
struct CosineCurve {
  Real initial, floor, steps;

  explicit CosineCurve(const Attrs& attrs)
      : initial(attrs.Float("initial")),
        floor(attrs.Float("floor")),
        steps(static_cast<Real>(attrs.Int("decay_steps"))) {}
  constexpr Real operator()(int64_t step, Real) const {
    const Real done = PartDone(static_cast<Real>(step), steps);
    return floor + (initial - floor) * 0.5 * (1 + std::cos(M_PI * done));
  }
};

template <class Real>
struct WarmUpCurve {
  Real start, steps;

  explicit WarmUpCurve(const Attrs& attrs)
      : start(attrs.Float("start")), steps(static_cast<Real>(attrs.Int("warmup_steps"))) {}
  constexpr Real operator()(int64_t step, Real rate) const {
    return rate * (start + (1 - start) * PartDone(static_cast<Real>(step + 1), steps));
  }
};

}  // namespace belfry::ops
