#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/elementwise/define_impl.h"
#include "ops/elementwise/functors.h"
#include "ops/math.h"
#include "ops/reduction/reduce_pieces_impl.h"
#include "ops/reduction/reduction_ops.h"
#include "ops/reduction/reductions.h"

namespace belfry::ops {
namespace {

// Sums over the axes along which `like`, whose shape the output has, was stretched.
absl::StatusOr<ReducePlan> PlanOfSumLike(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  return PlanReduce(x, BroadcastAxes(x, spec.outputs[0].shape));
}

// If nothing was stretched, the sum is a copy.
template <class T>
KernelDef SumLikeKernel() {
  KernelDef def = ReduceKernelDef<T>(&PlanOfSumLike, [](const ReducePlan&) { return SumReduction<Compute<T>>(); });
  const auto same = [](const KernelSpec& spec) {
    return spec.inputs[0].shape.elements() == spec.outputs[0].shape.elements();
  };
  def.make = [same, sum = std::move(def.make)](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
    if (!same(spec)) return sum(spec);
    return Kernel{[bytes = spec.outputs[0].bytes()](const KernelContext& context) {
      if (bytes > 0 && context.outputs[0] != context.inputs[0]) {
        std::memcpy(context.outputs[0], context.inputs[0], bytes);
      }
      return absl::OkStatus();
    }};
  };
  def.reduce = [same, sum = std::move(def.reduce)](const KernelSpec& spec) {
    return same(spec) ? std::nullopt : sum(spec);
  };
  return def;
}

template <class T>
KernelDef MeanKernel() {
  return ReduceKernelDef<T>(&PlanOfAxes, [](const ReducePlan& plan) {
    return SumReduction<Compute<T>>{1.0 / static_cast<double>(plan.reduced_elements())};
  });
}

absl::StatusOr<std::vector<Shape>> SumLikeShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape merged, BroadcastShapes(args.inputs[0], args.inputs[1]));
  if (!merged.CompatibleWith(args.inputs[0])) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor of shape ", args.inputs[0].ToString(),
                                                   " cannot be summed to the shape ", args.inputs[1].ToString(),
                                                   ", which does not broadcast to it"));
  }
  return std::vector<Shape>{args.inputs[1]};
}

// dx[i] = factor * dy[output of x[i]].
template <class T, bool mean>
absl::StatusOr<Kernel> MakeSumGrad(const KernelSpec& spec) {
  const Shape& x = spec.outputs[0].shape;
  ASSIGN_OR_RETURN(const std::vector<bool> reduced, ReducedAxes(spec.attrs.Ints("axes"), x.rank()));
  const Shape kept = KeepReduced(x, reduced);
  const double count = static_cast<double>(x.elements()) / static_cast<double>(kept.elements());
  const auto factor = static_cast<Compute<T>>(mean ? 1 / count : 1.0);
  if (x.elements() == 0) return NothingToDo();
  ASSIGN_OR_RETURN(const BroadcastPlan plan, PlanBroadcast(kept, x));
  return Kernel{[plan, factor](const KernelContext& context) {
    const T* dy = context.input<T>(0);
    T* dx = context.output<T>(0);
    ParallelFor(plan.rows, static_cast<double>(plan.inner), [&](int64_t begin, int64_t end) {
      plan.ForRows(begin, end, [&](int64_t row, int64_t from, int64_t) {
        T* out = dx + row * plan.inner;
        if (plan.stride_a == 0) {
          std::fill(out, out + plan.inner, static_cast<T>(factor * static_cast<Compute<T>>(dy[from])));
        } else {
          MapRun(functor::Scale<Compute<T>>{factor}, dy + from, out, plan.inner);
        }
      });
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> SumGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const std::vector<Shape> reduced, ReduceShape({args.attrs, args.inputs.subspan(1), args.dtypes}));
  if (!reduced[0].CompatibleWith(args.inputs[0])) {
    return absl::InvalidArgumentError(absl::StrCat("the gradient has shape ", args.inputs[0].ToString(),
                                                   ", but the reduction has ", reduced[0].ToString()));
  }
  return std::vector<Shape>{args.inputs[1]};
}

// Registers "Sum" or "Mean" and its gradient op, whose own gradient is the former again.
void RegisterPair(OpRegistry& registry, const std::string& name, absl::Span<const DType> types,
                  std::vector<KernelDef> kernels, std::vector<KernelDef> gradient_kernels) {
  const std::string gradient_name = name + "Grad";
  const auto attrs = [](const Node& node) {
    return Attrs{{"axes", node.attrs().Ints("axes")}, {"keep_dims", node.attrs().Bool("keep_dims")}};
  };
  const std::vector<AttrDef> definitions = {{"axes", std::vector<int64_t>(), true}, {"keep_dims", false}};
  registry.Add({.name = name,
                .inputs = {{.name = "x"}},
                .outputs = {{.name = "y"}},
                .types = {{"T", types}},
                .attrs = definitions,
                .shape = ReduceShape,
                .gradient =
                    [=](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
                      return std::vector<Output>{scope.Add(gradient_name, {dy[0], node.input(0)}, attrs(node))};
                    },
                .kernels = std::move(kernels)});
  registry.Add({.name = gradient_name,
                .inputs = {{.name = "dy"}, {.name = "x", .shape_only = true}},
                .outputs = {{.name = "dx"}},
                .types = {{"T", kFloatTypes}},
                .attrs = definitions,
                .shape = SumGradShape,
                .gradient =
                    [=](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
                      return std::vector<Output>{scope.Add(name, {dy[0]}, attrs(node)), Output()};
                    },
                .kernels = std::move(gradient_kernels)});
}

}  // namespace

Output Sum(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  return scope.Add("Sum", {x}, ReduceAttrs(axes, x, keep_dims));
}
Output Mean(OpScope scope, Output x, const Axes& axes, bool keep_dims) {
  return scope.Add("Mean", {x}, ReduceAttrs(axes, x, keep_dims));
}
Output SumLike(OpScope scope, Output x, Output like) {
  const bool same = x.valid() && like.valid() && x.shape() == like.shape() && x.shape().known();
  return same ? x : scope.Add("SumLike", {x, like});
}

void RegisterSums(OpRegistry& registry) {
  RegisterPair(registry, "Sum", kNumericTypes,
               ReduceKernels<SumReduction, float, double, Half, BFloat16, int32_t, int64_t, uint8_t>(&PlanOfAxes),
               Kernels<float, double, Half, BFloat16>(
                   "CPU", [](auto tag) { return &MakeSumGrad<typename decltype(tag)::type, false>; }));
  RegisterPair(registry, "Mean", kFloatTypes,
               {MeanKernel<float>(), MeanKernel<double>(), MeanKernel<Half>(), MeanKernel<BFloat16>()},
               Kernels<float, double, Half, BFloat16>(
                   "CPU", [](auto tag) { return &MakeSumGrad<typename decltype(tag)::type, true>; }));
  registry.Add(
      {.name = "SumLike",
       .inputs = {{.name = "x"}, {.name = "like", .shape_only = true}},
       .outputs = {{.name = "y"}},
       .types = {{"T", kNumericTypes}},
       .shape = SumLikeShape,
       .gradient =
           [](const Scope& scope, const Node& node, absl::Span<const Output> dy) {
             return std::vector<Output>{scope.Add("BroadcastLike", {dy[0], node.input(0)}), Output()};
           },
       .identity_if_same_shape = true,
       .in_place = {{0, 0}},
       .kernels = {SumLikeKernel<float>(), SumLikeKernel<double>(), SumLikeKernel<Half>(), SumLikeKernel<BFloat16>(),
                   SumLikeKernel<int32_t>(), SumLikeKernel<int64_t>(), SumLikeKernel<uint8_t>()}});
}

}  // namespace belfry::ops
