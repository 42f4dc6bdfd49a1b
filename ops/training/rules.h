// Element-wise update rules of the optimizers, each written once for CPUs (update_impl.h) and GPUs (update_gpu_impl.h).
//
// A rule is constructed from an op's attributes. It has kSlots, kStep (whether it needs the step), weight_decay, and
// At(learning_rate, step), which returns the update: a plain value, called with the variable and its slots, which it
// modifies, and the gradient, to which weight_decay * variable has been added. C is the type of the computation.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/graph/attr.h"

namespace belfry::ops {

// The type in which elements of type T are computed.
template <class T>
using UpdateMath = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class C>
struct GradientDescentRule {
  static constexpr size_t kSlots = 0;
  static constexpr bool kStep = false;
  double weight_decay;

  struct Update {
    C rate;
    constexpr void operator()(C& v, C g) const { v -= rate * g; }
  };
  explicit constexpr GradientDescentRule(const Attrs& attrs) : weight_decay(attrs.Float("weight_decay")) {}
  constexpr Update At(double learning_rate, int64_t) const { return {static_cast<C>(learning_rate)}; }
};

template <class C>
struct MomentumRule {
  static constexpr size_t kSlots = 1;
  static constexpr bool kStep = false;
  double weight_decay;
  C momentum;
  bool use_nesterov;

  struct Update {
    C rate, momentum;
    bool use_nesterov;
    constexpr void operator()(C& v, C& a, C g) const {
      a = momentum * a + g;
      v -= rate * (use_nesterov ? g + momentum * a : a);
    }
  };
  explicit constexpr MomentumRule(const Attrs& attrs)
      : weight_decay(attrs.Float("weight_decay")),
        momentum(static_cast<C>(attrs.Float("momentum"))),
        use_nesterov(attrs.Bool("use_nesterov")) {}
  constexpr Update At(double learning_rate, int64_t) const {
    return {static_cast<C>(learning_rate), momentum, use_nesterov};
  }
};

template <class C>
struct RMSPropRule {
  static constexpr size_t kSlots = 2;
  static constexpr bool kStep = false;
  double weight_decay;
  C fresh, momentum, epsilon;

  struct Update {
    C rate, fresh, momentum, epsilon;
    constexpr void operator()(C& v, C& ms, C& mom, C g) const {
      ms += fresh * (g * g - ms);
      mom = momentum * mom + rate * g / std::sqrt(ms + epsilon);
      v -= mom;
    }
  };
  explicit constexpr RMSPropRule(const Attrs& attrs)
      : weight_decay(attrs.Float("weight_decay")),
        fresh(static_cast<C>(1 - attrs.Float("decay"))),
        momentum(static_cast<C>(attrs.Float("momentum"))),
        epsilon(static_cast<C>(attrs.Float("epsilon"))) {}
  constexpr Update At(double learning_rate, int64_t) const {
    return {static_cast<C>(learning_rate), fresh, momentum, epsilon};
  }
};

template <class C>
struct AdagradRule {
  static constexpr size_t kSlots = 1;
  static constexpr bool kStep = false;
  double weight_decay;

  struct Update {
    C rate;
    constexpr void operator()(C& v, C& a, C g) const {
      a += g * g;
      v -= rate * g / std::sqrt(a);
    }
  };
  explicit constexpr AdagradRule(const Attrs& attrs) : weight_decay(attrs.Float("weight_decay")) {}
  constexpr Update At(double learning_rate, int64_t) const { return {static_cast<C>(learning_rate)}; }
};

// If decoupled (AdamW), the decay acts on the variable directly, not through the gradient.
template <class C, bool decoupled>
struct AdamRule {
  static constexpr size_t kSlots = 2;
  static constexpr bool kStep = true;
  double weight_decay, decoupled_decay;  // one of the two is 0
  double beta1, beta2;
  C fresh1, fresh2, epsilon;

  struct Update {
    C rate, keep, fresh1, fresh2, epsilon;
    constexpr void operator()(C& v, C& m, C& s, C g) const {
      m += fresh1 * (g - m);
      s += fresh2 * (g * g - s);
      v = (decoupled ? keep : C(1)) * v - rate * m / (std::sqrt(s) + epsilon);
    }
  };
  explicit constexpr AdamRule(const Attrs& attrs)
      : weight_decay(decoupled ? 0 : attrs.Float("weight_decay")),
        decoupled_decay(decoupled ? attrs.Float("weight_decay") : 0),
        beta1(attrs.Float("beta1")),
        beta2(attrs.Float("beta2")),
        fresh1(static_cast<C>(1 - beta1)),
        fresh2(static_cast<C>(1 - beta2)),
        epsilon(static_cast<C>(attrs.Float("epsilon"))) {}
  constexpr Update At(double learning_rate, int64_t step) const {
    const auto t = static_cast<double>(step + 1);
    const auto rate = static_cast<C>(learning_rate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)));
    return {rate, static_cast<C>(1 - learning_rate * decoupled_decay), fresh1, fresh2, epsilon};
  }
};
template <class C>
using CoupledAdamRule = AdamRule<C, false>;
template <class C>
using DecoupledAdamRule = AdamRule<C, true>;

// Not an element-wise rule: the rate depends on the norms of the variable and the gradient.
struct LarsRule {
  double momentum, trust_coefficient, epsilon, weight_decay;
  bool adapt;

  explicit LarsRule(const Attrs& attrs)
      : momentum(attrs.Float("momentum")),
        trust_coefficient(attrs.Float("trust_coefficient")),
        epsilon(attrs.Float("epsilon")),
        weight_decay(attrs.Float("weight_decay")),
        adapt(attrs.Bool("adapt")) {}
  // The factor on the learning rate.
  constexpr double Trust(double variable_norm, double gradient_norm) const {
    if (variable_norm == 0 || gradient_norm == 0) return 1;
    return trust_coefficient * variable_norm / (gradient_norm + weight_decay * variable_norm + epsilon);
  }
  template <class C>
  struct Update {
    C rate, momentum;
    constexpr void operator()(C& v, C& a, C g) const {
      a = momentum * a + rate * g;
      v -= a;
    }
  };
};

// average += (1 - d) (value - average), where d = decay, or min(decay, (1 + step) / (10 + step)) with use_step.
struct MovingAverageRule {
  double limit;
  bool use_step;

  template <class A>
  explicit constexpr MovingAverageRule(const A& attrs)
      : limit(attrs.Float("decay")), use_step(attrs.Bool("use_step")) {}
  template <class C>
  struct Update {
    C fresh;
    constexpr void operator()(C& average, C value) const { average += fresh * (value - average); }
  };
  template <class C>
  constexpr Update<C> At(int64_t step) const {
    const auto t = static_cast<double>(step);
    const double early = (1 + t) / (10 + t);
    return {static_cast<C>(1 - (use_step && early < limit ? early : limit))};
  }
};

// Transition of a loss scale after a step (ApplyLossScale in ops/training.h).
struct LossScaleRule {
  double factor, min_scale, max_scale;
  int64_t growth_interval;

  explicit LossScaleRule(const Attrs& attrs)
      : factor(attrs.Float("factor")),
        min_scale(attrs.Float("min_scale")),
        max_scale(attrs.Float("max_scale")),
        growth_interval(attrs.Int("growth_interval")) {}
  struct State {
    double scale;
    int64_t good, skipped;
  };
  constexpr State After(const State& now, bool finite) const {
    if (!finite) return {now.scale / factor > min_scale ? now.scale / factor : min_scale, 0, now.skipped + 1};
    if (now.good + 1 < growth_interval) return {now.scale, now.good + 1, now.skipped};
    return {now.scale * factor < max_scale ? now.scale * factor : max_scale, 0, now.skipped};
  }
};

// The factor that ClipToNorm applies; NaN if the norm is not finite. It has two parts, of which the second is 1 unless
// the factor is too small for C, as with gradients near the largest float: then the first is 2^shift times it.
template <class C>
struct ClipRule {
  C factor, rest;

  constexpr ClipRule(double norm, double clip_norm) : factor(1), rest(1) {
    using Limits = std::numeric_limits<C>;
    constexpr int kShift = Limits::max_exponent / 2;
    if (!(std::abs(norm) <= std::numeric_limits<double>::max())) {
      factor = Limits::quiet_NaN();
    } else if (norm > clip_norm) {
      const double whole = clip_norm / norm;
      const bool small = whole < static_cast<double>(Limits::min());
      factor = static_cast<C>(small ? std::ldexp(clip_norm, kShift) / norm : whole);
      if (small) rest = std::ldexp(C(1), -kShift);
    }
  }
  constexpr C operator()(C x) const { return factor * x * rest; }
};

}  // namespace belfry::ops
