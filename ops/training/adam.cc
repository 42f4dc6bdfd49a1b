#include <cmath>

#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

template <class C, bool decoupled>
struct AdamRule {
  static constexpr size_t kSlots = 2;
  static constexpr bool kStep = true;
  double weight_decay, decoupled_decay;  // one of them is 0
  double beta1, beta2;
  C fresh1, fresh2, epsilon;

  explicit AdamRule(const Attrs& attrs)
      : weight_decay(decoupled ? 0 : attrs.Float("weight_decay")),
        decoupled_decay(decoupled ? attrs.Float("weight_decay") : 0),
        beta1(attrs.Float("beta1")),
        beta2(attrs.Float("beta2")),
        fresh1(static_cast<C>(1 - beta1)),
        fresh2(static_cast<C>(1 - beta2)),
        epsilon(static_cast<C>(attrs.Float("epsilon"))) {}
  auto At(double learning_rate, int64_t step) const {
    const auto t = static_cast<double>(step + 1);
    const auto rate = static_cast<C>(learning_rate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)));
    const auto keep = static_cast<C>(1 - learning_rate * decoupled_decay);
    return [rate, keep, rule = *this](C& v, C& m, C& s, C g) {
      m += rule.fresh1 * (g - m);
      s += rule.fresh2 * (g * g - s);
      v = (decoupled ? keep : C(1)) * v - rate * m / (std::sqrt(s) + rule.epsilon);
    };
  }
};

template <class C>
using CoupledRule = AdamRule<C, false>;
template <class C>
using DecoupledRule = AdamRule<C, true>;

Output AddAdam(const Scope& scope, absl::string_view op, std::vector<Output> inputs, const AdamAttrs& attrs) {
  return scope.Add(op, std::move(inputs),
                   {{"beta1", attrs.beta1},
                    {"beta2", attrs.beta2},
                    {"epsilon", attrs.epsilon},
                    {"weight_decay", attrs.weight_decay}});
}

OpDef AdamOpDef(absl::string_view name, std::vector<KernelDef> kernels) {
  return UpdateOpDef(name, {.slots = {"m", "s"}, .step = true}, {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}},
                     std::move(kernels));
}

}  // namespace

Output ApplyAdam(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                 Output learning_rate, Output gradient, const AdamAttrs& attrs) {
  return AddAdam(scope, "ApplyAdam", {variable, m, s, step, learning_rate, gradient}, attrs);
}

Output ApplyAdamW(OpScope scope, const Variable& variable, const Variable& m, const Variable& s, Output step,
                  Output learning_rate, Output gradient, const AdamAttrs& attrs) {
  return AddAdam(scope, "ApplyAdamW", {variable, m, s, step, learning_rate, gradient}, attrs);
}

void RegisterAdamOps(OpRegistry& registry) {
  registry.Add(AdamOpDef("ApplyAdam", UpdateKernels<CoupledRule>()));
  registry.Add(AdamOpDef("ApplyAdamW", UpdateKernels<DecoupledRule>()));
}

}  // namespace belfry::ops
