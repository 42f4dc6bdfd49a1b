#include "ops/training.h"
#include "ops/training/norm_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeLars(const KernelSpec& spec) {
  using C = UpdateMath<T>;
  const LarsRule rule(spec.attrs);
  const int64_t n = spec.outputs[0].shape.elements();
  const auto run = [rule, n](const KernelContext& context) {
    T* variable = context.ref<T>(0);
    const T* gradient = context.input<T>(3);
    double rate = context.input<float>(2)[0];
    if (rule.adapt) {
      auto* partial = static_cast<double*>(context.workspace);
      rate *= rule.Trust(EuclideanNorm(variable, n, partial), EuclideanNorm(gradient, n, partial));
    }
    ForEachUpdate<T>(n, rule.weight_decay, variable, std::array{context.ref<T>(1)}, gradient,
                     LarsRule::Update<C>{static_cast<C>(rate), static_cast<C>(rule.momentum)});
    return absl::OkStatus();
  };
  return Kernel{run, rule.adapt ? sizeof(double) * static_cast<size_t>(NormChunks(n)) : 0};
}

}  // namespace

Output ApplyLars(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                 Output gradient, const LarsAttrs& attrs) {
  return scope.Add("ApplyLars", {variable, accumulator, learning_rate, gradient},
                   {{"momentum", attrs.momentum},
                    {"trust_coefficient", attrs.trust_coefficient},
                    {"epsilon", attrs.epsilon},
                    {"weight_decay", attrs.weight_decay},
                    {"adapt", attrs.adapt}});
}

void RegisterLarsOps(OpRegistry& registry) {
  OpDef op = UpdateOpDef(
      "ApplyLars", {.slots = {"accumulator"}},
      {{"momentum", 0.9}, {"trust_coefficient", 0.001}, {"epsilon", 0.0}, {"adapt", true}},
      Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) { return &MakeLars<typename decltype(tag)::type>; }));
  op.elementwise = false;  // needs norms
  registry.Add(std::move(op));
}

}  // namespace belfry::ops
