#include "ops/activation/functors.h"
#include "ops/common/op_rules_impl.h"
#include "ops/element_code.h"
#include "ops/losses/losses_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/simd/math_impl.h"
#include "ops/simd/vector_impl.h"

namespace belfry::ops {
namespace {

struct LossFunction {
  static constexpr double kCost = 20;
  explicit LossFunction(const Attrs&) {}
  template <class C>
  void operator()(int64_t n, const C* x, const C* t, C* y) const {
    alignas(64) C e[kBlock];
    for (int64_t begin = 0; begin < n; begin += kBlock, x += kBlock, t += kBlock, y += kBlock) {
      const int64_t size = std::min(kBlock, n - begin);
      simd::Map<C>(size, x, e, [](auto v) { return simd::SoftplusTail(v); });
      for (int64_t i = 0; i < size; ++i) y[i] = functor::SigmoidCrossEntropy<C>().Finish(x[i], t[i], e[i]);
    }
  }
};

template <class T>
absl::StatusOr<Kernel> MakeSigmoidCrossEntropyGrad(const KernelSpec& spec) {
  using C = Compute<T>;
  return Kernel{[n = spec.outputs[0].shape.elements()](const KernelContext& context) {
    const T *dy = context.input<T>(0), *x = context.input<T>(1), *t = context.input<T>(2);
    T* dx = context.output<T>(0);
    ParallelBlocks(n, 12, [&](int64_t begin, int64_t end) {
      alignas(64) C e[kBlock];
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t size = std::min(kBlock, end - at);
        Load(x + at, size, e);
        simd::Map<C>(size, e, e, [](auto v) { return simd::Exp(-v); });
        for (int64_t i = 0; i < size; ++i) {
          dx[at + i] = static_cast<T>(functor::SigmoidCrossEntropyGrad<C>().Finish(static_cast<C>(dy[at + i]),
                                                                                   static_cast<C>(t[at + i]), e[i]));
        }
      }
    });
    return absl::OkStatus();
  }};
}

// The loss is linear in the labels: dlabels = -x dy.
std::vector<Output> SigmoidCrossEntropyGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const Output logits = node.input(0), labels = node.input(1);
  return {scope.Add("SigmoidCrossEntropyGrad", {dy[0], logits, labels}),
          scope.Add("Neg", {scope.Add("Mul", {logits, dy[0]})})};
}

// dlogits = dy (sigmoid(logits) - labels).
std::vector<Output> SigmoidCrossEntropySecondGradient(const Scope& scope, const Node& node,
                                                      absl::Span<const Output> g) {
  const Output dy = node.input(0), logits = node.input(1), s = Sigmoid(scope, logits), both = Mul(scope, g[0], dy);
  return {scope.Add("SigmoidCrossEntropyGrad", {g[0], logits, node.input(2)}),
          Mul(scope, both, Mul(scope, s, Sub(scope, 1, s))), Neg(scope, both)};
}

}  // namespace

Output SigmoidCrossEntropy(OpScope scope, Output logits, Output labels) {
  return scope.Add("SigmoidCrossEntropyWithLogits", {logits, labels});
}

void RegisterSigmoidCrossEntropy(OpRegistry& registry) {
  registry.Add({.name = "SigmoidCrossEntropyWithLogits",
                .inputs = {{"logits"}, {"labels"}},
                .outputs = {{"loss"}},
                .types = {{"T", kFloatTypes}},
                .shape = SameAsAll,
                .gradient = SigmoidCrossEntropyGradient,
                .elementwise = true,
                .element_code = ElementMap("functor::SigmoidCrossEntropy<{T}>{}"),
                .in_place = {{0, 0}, {1, 0}},
                .kernels = BinaryKernels<LossFunction>()});
  registry.Add({.name = "SigmoidCrossEntropyGrad",
                .inputs = {{"dy"}, {"logits"}, {"labels"}},
                .outputs = {{"dlogits"}},
                .types = {{"T", kFloatTypes}},
                .shape = SameAsAll,
                .gradient = SigmoidCrossEntropySecondGradient,
                .elementwise = true,
                .element_code = ElementMap("functor::SigmoidCrossEntropyGrad<{T}>{}"),
                .in_place = {{0, 0}, {1, 0}, {2, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeSigmoidCrossEntropyGrad<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
