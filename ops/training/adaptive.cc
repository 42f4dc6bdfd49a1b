#include <cmath>

#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

template <class C>
struct RMSPropRule {
  static constexpr size_t kSlots = 2;
  static constexpr bool kStep = false;
  double weight_decay;
  C fresh, momentum, epsilon;

  explicit RMSPropRule(const Attrs& attrs)
      : weight_decay(attrs.Float("weight_decay")),
        fresh(static_cast<C>(1 - attrs.Float("decay"))),
        momentum(static_cast<C>(attrs.Float("momentum"))),
        epsilon(static_cast<C>(attrs.Float("epsilon"))) {}
  auto At(double learning_rate, int64_t) const {
    return [lr = static_cast<C>(learning_rate), rule = *this](C& v, C& ms, C& mom, C g) {
      ms += rule.fresh * (g * g - ms);
      mom = rule.momentum * mom + lr * g / std::sqrt(ms + rule.epsilon);
      v -= mom;
    };
  }
};

template <class C>
struct AdagradRule {
  static constexpr size_t kSlots = 1;
  static constexpr bool kStep = false;
  double weight_decay;

  explicit AdagradRule(const Attrs& attrs) : weight_decay(attrs.Float("weight_decay")) {}
  auto At(double learning_rate, int64_t) const {
    return [lr = static_cast<C>(learning_rate)](C& v, C& a, C g) {
      a += g * g;
      v -= lr * g / std::sqrt(a);
    };
  }
};

}  // namespace

Output ApplyRMSProp(OpScope scope, const Variable& variable, const Variable& mean_square, const Variable& momentum,
                    Output learning_rate, Output gradient, const RMSPropAttrs& attrs) {
  return scope.Add("ApplyRMSProp", {variable, mean_square, momentum, learning_rate, gradient},
                   {{"decay", attrs.decay},
                    {"momentum", attrs.momentum},
                    {"epsilon", attrs.epsilon},
                    {"weight_decay", attrs.weight_decay}});
}

Output ApplyAdagrad(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                    Output gradient, const AdagradAttrs& attrs) {
  return scope.Add("ApplyAdagrad", {variable, accumulator, learning_rate, gradient},
                   {{"weight_decay", attrs.weight_decay}});
}

void RegisterAdaptiveOps(OpRegistry& registry) {
  registry.Add(UpdateOpDef("ApplyRMSProp", {.slots = {"mean_square", "momentum"}},
                           {{"decay", 0.9}, {"momentum", 0.0}, {"epsilon", 1e-10}}, UpdateKernels<RMSPropRule>()));
  registry.Add(UpdateOpDef("ApplyAdagrad", {.slots = {"accumulator"}}, {}, UpdateKernels<AdagradRule>()));
}

}  // namespace belfry::ops
