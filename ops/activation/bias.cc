#include "ops/activation/activation_ops.h"
#include "ops/array.h"
#include "ops/common/op_rules_impl.h"
#include "ops/nn.h"
#include "ops/reduction/reduce_pieces_impl.h"
#include "ops/reduction/reductions.h"

namespace belfry::ops {
namespace {

template <class T>
absl::StatusOr<Kernel> MakeBiasAdd(const KernelSpec& spec) {
  using C = Compute<T>;
  const int64_t channels = spec.inputs[1].shape[0];
  const int64_t rows = channels == 0 ? 0 : spec.outputs[0].shape.elements() / channels;
  return Kernel{[rows, channels](const KernelContext& context) {
    const T *x = context.input<T>(0), *bias = context.input<T>(1);
    T* y = context.output<T>(0);
    ParallelFor(rows, static_cast<double>(channels), [=](int64_t begin, int64_t end) {
      alignas(64) C sum_block[kBlock], bias_block[kBlock];
      for (int64_t c = 0; c < channels; c += kBlock) {
        const int64_t n = std::min(kBlock, channels - c);
        const C* const offset = Widened(bias + c, bias_block, n);
        for (int64_t at = begin * channels + c; at < end * channels; at += channels) {
          const C* const wide = Widened(x + at, sum_block, n);
          C* const sum = Wide(y + at, sum_block);
          for (int64_t i = 0; i < n; ++i) sum[i] = wide[i] + offset[i];
          Narrowed(sum, y + at, n);
        }
      }
    });
    return absl::OkStatus();
  }};
}

// Sums dy over all axes but the last.
absl::StatusOr<ReducePlan> PlanOfBiasAddGrad(const KernelSpec& spec) {
  const Shape& dy = spec.inputs[0].shape;
  std::vector<bool> reduced(dy.rank(), true);
  reduced.back() = false;
  return PlanReduce(dy, reduced);
}

template <class T>
KernelDef BiasAddGradDef() {
  return ReduceKernelDef<T>(&PlanOfBiasAddGrad, [](const ReducePlan&) { return SumReduction<Compute<T>>(); });
}

absl::StatusOr<std::vector<Shape>> BiasAddShape(const ShapeArgs& args) {
  Shape x = args.inputs[0];
  const Shape& bias = args.inputs[1];
  if (bias.rank() != 1 || x.rank() == 0 || !Shape({x[-1]}).CompatibleWith(bias)) {
    return absl::InvalidArgumentError(absl::StrCat("the bias of ", x.ToString(), " must have one element for each of ",
                                                   "the last axis, but has shape ", bias.ToString()));
  }
  if (x[-1] == Shape::kUnknown) x.set_dim(-1, bias[0]);
  return std::vector<Shape>{x};
}

absl::StatusOr<std::vector<Shape>> BiasAddGradShape(const ShapeArgs& args) {
  if (args.inputs[0].rank() == 0) return absl::InvalidArgumentError("dy must have a last axis");
  return std::vector<Shape>{Shape({args.inputs[0][-1]})};
}

}  // namespace

absl::StatusOr<Kernel> MakeBiasAddGrad(const KernelSpec& spec) {
  switch (spec.inputs[0].dtype) {
    case DType::kFloat64: return BiasAddGradDef<double>().make(spec);
    case DType::kFloat16: return BiasAddGradDef<Half>().make(spec);
    case DType::kBFloat16: return BiasAddGradDef<BFloat16>().make(spec);
    default: return BiasAddGradDef<float>().make(spec);
  }
}

Output BiasAdd(OpScope scope, Output x, Output bias) { return scope.Add("BiasAdd", {x, bias}); }

void RegisterBias(OpRegistry& registry) {
  registry.Add({.name = "BiasAdd",
                .inputs = {{"x"}, {"bias"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .shape = BiasAddShape,
                .gradient = [](const Scope& scope, const Node&, absl::Span<const Output> dy) -> std::vector<Output> {
                  return {dy[0], scope.Add("BiasAddGrad", {dy[0]})};
                },
                .elementwise = true,
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeBiasAdd<typename decltype(tag)::type>; })});
  registry.Add(
      {.name = "BiasAddGrad",
       .inputs = {{"dy"}},
       .outputs = {{"dbias"}},
       .types = {{"T", kFloatTypes}},
       .shape = BiasAddGradShape,
       .gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> g) -> std::vector<Output> {
         return {BroadcastLike(scope, g[0], node.input(0))};
       },
       .kernels = {BiasAddGradDef<float>(), BiasAddGradDef<double>(), BiasAddGradDef<Half>(),
                   BiasAddGradDef<BFloat16>()}});
}

}  // namespace belfry::ops
