#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

template <class C>
struct GradientDescentRule {
  static constexpr size_t kSlots = 0;
  static constexpr bool kStep = false;
  double weight_decay;

  explicit GradientDescentRule(const Attrs& attrs) : weight_decay(attrs.Float("weight_decay")) {}
  auto At(double learning_rate, int64_t) const {
    return [lr = static_cast<C>(learning_rate)](C& v, C g) { v -= lr * g; };
  }
};

template <class C>
struct MomentumRule {
  static constexpr size_t kSlots = 1;
  static constexpr bool kStep = false;
  double weight_decay;
  C momentum;
  bool use_nesterov;

  explicit MomentumRule(const Attrs& attrs)
      : weight_decay(attrs.Float("weight_decay")),
        momentum(static_cast<C>(attrs.Float("momentum"))),
        use_nesterov(attrs.Bool("use_nesterov")) {}
  auto At(double learning_rate, int64_t) const {
    return [lr = static_cast<C>(learning_rate), rule = *this](C& v, C& a, C g) {
      a = rule.momentum * a + g;
      v -= lr * (rule.use_nesterov ? g + rule.momentum * a : a);
    };
  }
};

}  // namespace

Output ApplyGradientDescent(OpScope scope, const Variable& variable, Output learning_rate, Output gradient,
                            const GradientDescentAttrs& attrs) {
  return scope.Add("ApplyGradientDescent", {variable, learning_rate, gradient}, {{"weight_decay", attrs.weight_decay}});
}

Output ApplyMomentum(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                     Output gradient, const MomentumAttrs& attrs) {
  return scope.Add(
      "ApplyMomentum", {variable, accumulator, learning_rate, gradient},
      {{"momentum", attrs.momentum}, {"use_nesterov", attrs.use_nesterov}, {"weight_decay", attrs.weight_decay}});
}

void RegisterDescentOps(OpRegistry& registry) {
  registry.Add(UpdateOpDef("ApplyGradientDescent", {}, {}, UpdateKernels<GradientDescentRule>()));
  registry.Add(UpdateOpDef("ApplyMomentum", {.slots = {"accumulator"}}, {{"momentum", 0.9}, {"use_nesterov", false}},
                           UpdateKernels<MomentumRule>()));
}

}  // namespace belfry::ops
