#include <cmath>
#include <type_traits>

#include "framework/base/check.h"
#include "ops/activation/functors.h"
#include "ops/builtin_ops.h"
#include "ops/common/in_float32_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/common/primitive_kernel_impl.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/conv2d_winograd_impl.h"
#include "ops/convolution/convolution_ops.h"
#include "ops/convolution/fused_activations_impl.h"
#include "ops/onednn/matmul.h"
#include "ops/product/blocked_product_impl.h"
#include "ops/product/product_ops.h"
#include "ops/reduction/column_sums.h"

namespace belfry::ops {
namespace {

absl::StatusOr<FusedActivation> ActivationOf(const Attrs& attrs) {
  const std::string& name = attrs.String("activation");
  for (const FusedActivation& known : kFusedActivations) {
    if (known.name == name) return known;
  }
  return absl::InvalidArgumentError(absl::StrCat("activation '", name, "' cannot be fused"));
}

absl::StatusOr<onednn::PostOps> PostOpsOf(const Attrs& attrs) {
  ASSIGN_OR_RETURN(const FusedActivation known, ActivationOf(attrs));
  return onednn::PostOps{known.activation, known.has_alpha ? static_cast<float>(attrs.Float("alpha")) : 0.0f};
}

// The kernel, then over its output the activation's own kernel.
template <class T>
absl::StatusOr<Kernel> ThenActivation(Kernel kernel, const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const FusedActivation known, ActivationOf(spec.attrs));
  Attrs attrs = {{"approximate", known.approximate}};
  if (known.has_alpha) attrs.Set("alpha", spec.attrs.Float("alpha"));
  const KernelDef* def = BuiltinOps().Find(known.op)->FindKernel("CPU", kDTypeOf<T>);
  ASSIGN_OR_RETURN(const Kernel activation, def->make({spec.name, attrs, spec.outputs, spec.outputs, spec.device}));
  BELFRY_CHECK(activation.workspace_bytes == 0);
  kernel.run = [run = std::move(kernel.run), activation = activation.run](const KernelContext& context) {
    RETURN_IF_ERROR(run(context));
    const void* const y = context.outputs[0];
    KernelContext over = context;
    over.inputs = &y;
    return activation(over);
  };
  return kernel;
}

template <class C>
C Apply(const onednn::PostOps& post_ops, C x) {
  const C alpha = static_cast<C>(post_ops.alpha);
  switch (post_ops.activation) {
    case onednn::Activation::kRelu: return x < 0 ? (alpha == 0 ? C(0) : alpha * x) : x;
    case onednn::Activation::kRelu6: return x < 0 ? C(0) : x > 6 ? C(6) : x;
    case onednn::Activation::kElu: return x < 0 ? alpha * std::expm1(x) : x;
    case onednn::Activation::kTanh: return std::tanh(x);
    case onednn::Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case onednn::Activation::kGelu: return functor::Gelu<C>()(x);
    case onednn::Activation::kGeluTanh: return functor::Gated<C, functor::GeluTanhGate>()(x);
    default: return x;
  }
}

// The kernel of `op` on the first two inputs, then bias (input 2) and activation over its output. Results of 16 bits
// get the activation together with the bias, so that they are rounded once.
template <class T>
absl::StatusOr<Kernel> MakeByParts(const KernelSpec& spec, absl::string_view op, const Attrs& attrs) {
  using C = Compute<T>;
  ASSIGN_OR_RETURN(const onednn::PostOps post_ops, PostOpsOf(spec.attrs));
  const KernelDef* def = BuiltinOps().Find(op)->FindKernel("CPU", kDTypeOf<T>);
  ASSIGN_OR_RETURN(Kernel product, def->make({spec.name, attrs, spec.inputs.subspan(0, 2), spec.outputs, spec.device}));
  const int64_t channels = spec.inputs[2].shape[0], rows = RowsOf(spec.outputs[0].shape);
  const auto finish = [run = std::move(product.run), channels, rows](const KernelContext& context, const auto& apply) {
    RETURN_IF_ERROR(run(context));
    const T* bias = context.input<T>(2);
    T* y = context.output<T>(0);
    ParallelFor(rows, 4.0 * static_cast<double>(channels), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = y + row * channels;
        for (int64_t c = 0; c < channels; ++c) {
          to[c] = static_cast<T>(apply(static_cast<C>(to[c]) + static_cast<C>(bias[c])));
        }
      }
    });
    return absl::OkStatus();
  };
  const bool none = post_ops.activation == onednn::Activation::kNone;
  if (!none && !std::is_same_v<T, C>) {
    return Kernel{[finish, post_ops](const KernelContext& context) {
                    return finish(context, [&](C x) { return Apply(post_ops, x); });
                  },
                  product.workspace_bytes};
  }
  Kernel kernel{[finish](const KernelContext& context) { return finish(context, [](C x) { return x; }); },
                product.workspace_bytes};
  return none ? absl::StatusOr<Kernel>(std::move(kernel)) : ThenActivation<T>(std::move(kernel), spec);
}

// The operations that the library applies to its result. Its ReLU and ReLU6 would make NaN 0, and so would its sigmoid
// for SSE4.1; its GELUs would make minus infinity NaN. So these are left to WithActivation.
onednn::PostOps InLibrary(const onednn::PostOps& post_ops) {
  using onednn::Activation;
  const Activation activation = post_ops.activation;
  const bool wrong = activation == Activation::kRelu6 || (activation == Activation::kRelu && post_ops.alpha == 0) ||
                     activation == Activation::kSigmoid || activation == Activation::kGelu ||
                     activation == Activation::kGeluTanh;
  return wrong ? onednn::PostOps{} : post_ops;
}

// The kernel, then over its output what InLibrary leaves out.
template <class T>
absl::StatusOr<std::optional<Kernel>> WithActivation(absl::StatusOr<std::optional<Kernel>> kernel,
                                                     const KernelSpec& spec, const onednn::PostOps& post_ops) {
  if (!kernel.ok() || !kernel->has_value() || InLibrary(post_ops).activation == post_ops.activation) return kernel;
  return ThenActivation<T>(**std::move(kernel), spec);
}

// The activations that Winograd's kernels compute.
bool WithinWinograd(const onednn::PostOps& post_ops) {
  return post_ops.activation == onednn::Activation::kNone ||
         (post_ops.activation == onednn::Activation::kRelu && post_ops.alpha == 0);
}
bool FusedByWinograd(const KernelSpec& spec) {
  const absl::StatusOr<onednn::PostOps> post_ops = PostOpsOf(spec.attrs);
  return post_ops.ok() && WithinWinograd(*post_ops) && ForwardByWinograd()(spec);
}

template <class T>
absl::StatusOr<Kernel> MakeFusedConv2D(const KernelSpec& spec) {
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec)) {
    ASSIGN_OR_RETURN(const onednn::PostOps post_ops, PostOpsOf(spec.attrs));
    const onednn::Conv2DShape shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
    if (WithinWinograd(post_ops)) {
      const bool relu = post_ops.activation == onednn::Activation::kRelu;
      if (std::optional<Kernel> fast = WinogradForward(spec, shape, relu)) return *std::move(fast);
    }
    ASSIGN_OR_RETURN(
        std::optional<Kernel> kernel,
        WithActivation<T>(PrimitiveKernel(onednn::Conv2DForward(shape, {.bias = true, .post_ops = InLibrary(post_ops)}),
                                          {0, 1, 2}, {0}),
                          spec, post_ops));
    if (kernel.has_value()) return *std::move(kernel);
  }
  return MakeByParts<T>(spec, "Conv2D", spec.attrs);
}

template <class T>
absl::StatusOr<Kernel> MakeFusedMatMul(const KernelSpec& spec) {
  const bool transpose_a = spec.attrs.Bool("transpose_a"), transpose_b = spec.attrs.Bool("transpose_b");
  if (OneDnnComputes(kDTypeOf<T>) && onednn::ProductsRepeat(kDTypeOf<T>) && HasElements(spec)) {
    ASSIGN_OR_RETURN(const onednn::PostOps post_ops, PostOpsOf(spec.attrs));
    const onednn::MatMulShape shape{.m = spec.outputs[0].shape[0],
                                    .k = spec.inputs[0].shape[transpose_a ? 0 : 1],
                                    .n = spec.outputs[0].shape[1],
                                    .transpose_a = transpose_a,
                                    .transpose_b = transpose_b,
                                    .dtype = kDTypeOf<T>,
                                    .output_dtype = kDTypeOf<T>};
    ASSIGN_OR_RETURN(
        std::optional<Kernel> kernel,
        WithActivation<T>(
            PrimitiveKernel(onednn::MatMul(shape, {.bias = true, .post_ops = InLibrary(post_ops)}), {0, 1, 2}, {0}),
            spec, post_ops));
    if (kernel.has_value()) return *std::move(kernel);
  }
  const Shape& y = spec.outputs[0].shape;
  const int64_t k = spec.inputs[0].shape[transpose_a ? 0 : 1];
  if (HasElements(spec) && (kIsSixteenBit<T> || y.elements() * k >= kSmallProduct)) {
    const BlockedProduct<T> product(y[0], y[1], k, transpose_a, transpose_b);
    Kernel kernel{[product](const KernelContext& context) {
                    product.Run(context.input<T>(0), context.input<T>(1), context.input<T>(2), context.output<T>(0),
                                static_cast<Compute<T>*>(context.workspace));
                    return absl::OkStatus();
                  },
                  sizeof(Compute<T>) * static_cast<size_t>(product.workspace_elements())};
    ASSIGN_OR_RETURN(const onednn::PostOps post_ops, PostOpsOf(spec.attrs));
    if (post_ops.activation == onednn::Activation::kNone) return kernel;
    return ThenActivation<T>(std::move(kernel), spec);
  }
  return MakeByParts<T>(spec, "MatMul", spec.attrs);
}

// Inputs x, filter (its shape), dy; outputs dfilter, dbias.
template <class T>
absl::StatusOr<Kernel> MakeBackpropFilterBias(const KernelSpec& spec) {
  if (OneDnnComputes(kDTypeOf<T>) && HasElements(spec)) {
    const onednn::Conv2DShape shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
    if (std::optional<Kernel> fast = WinogradBackpropFilter(spec, shape)) return *std::move(fast);
    ASSIGN_OR_RETURN(
        std::optional<Kernel> kernel,
        PrimitiveKernel(onednn::Conv2DBackwardWeights(shape, {.bias = true, .gradient_dtype = kDTypeOf<T>}), {0, 2},
                        {0, 1}));
    if (kernel.has_value()) return *std::move(kernel);
  }
  return MakeFilterThenBias(spec, "CPU");
}

// dx[i], with the addend if there is one, where y[i] > 0; else 0.
template <class T>
void AddAndMask(int64_t n, const T* addend, const T* y, T* dx) {
  using C = Compute<T>;
  ParallelBlocks(n, 3, [=](int64_t begin, int64_t end) {
    alignas(64) C sum_block[kBlock], addend_block[kBlock], y_block[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t size = std::min(kBlock, end - at);
      const C* const wide = Widened(dx + at, sum_block, size);
      const C* const wide_y = Widened(y + at, y_block, size);
      C* const sum = Wide(dx + at, sum_block);
      if (addend != nullptr) {
        const C* const wide_addend = Widened(addend + at, addend_block, size);
        for (int64_t i = 0; i < size; ++i) sum[i] = wide[i] + wide_addend[i];
      }
      for (int64_t i = 0; i < size; ++i) sum[i] = wide_y[i] > 0 ? sum[i] : C(0);
      Narrowed(sum, dx + at, size);
    }
  });
}

// Inputs x (its shape), filter, dy, the output of a ReLU like x and, if one is added, an addend.
template <class T>
absl::StatusOr<Kernel> MakeBackpropInputReluGrad(const KernelSpec& spec) {
  if (HasElements(spec)) {
    const onednn::Conv2DShape shape = Conv2DGeometry(spec.attrs, spec.inputs[0], spec.inputs[1].shape);
    if (std::optional<Kernel> fast = WinogradBackpropInput(spec, shape)) return *std::move(fast);
  }
  const KernelDef* def = BuiltinOps().Find("Conv2DBackpropInput")->FindKernel("CPU", kDTypeOf<T>);
  ASSIGN_OR_RETURN(Kernel kernel,
                   def->make({spec.name, spec.attrs, spec.inputs.subspan(0, 3), spec.outputs, spec.device}));
  kernel.run = [run = std::move(kernel.run), n = spec.outputs[0].shape.elements(),
                add = spec.inputs.size() > 4](const KernelContext& context) {
    RETURN_IF_ERROR(run(context));
    AddAndMask(n, add ? context.input<T>(4) : nullptr, context.input<T>(3), context.output<T>(0));
    return absl::OkStatus();
  };
  kernel.in_place = false;
  return kernel;
}

absl::StatusOr<std::vector<Shape>> BackpropInputReluGradShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, Conv2DOutputShape(args.attrs, args.inputs[0], args.inputs[1]));
  RETURN_IF_ERROR(y.Merge(args.inputs[2]).status());
  for (const Shape& like : args.inputs.subspan(3)) RETURN_IF_ERROR(args.inputs[0].Merge(like).status());
  return std::vector<Shape>{args.inputs[0]};
}

absl::Status CheckBias(const Shape& y, const Shape& bias) {
  if (bias.rank() == 1 && Shape({y[-1]}).CompatibleWith(bias)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the bias must have shape [", y[-1], "], not ", bias.ToString()));
}

absl::StatusOr<std::vector<Shape>> FusedConv2DShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(PostOpsOf(args.attrs).status());
  ASSIGN_OR_RETURN(const Shape y, Conv2DOutputShape(args.attrs, args.inputs[0], args.inputs[1]));
  RETURN_IF_ERROR(CheckBias(y, args.inputs[2]));
  return std::vector<Shape>{y};
}

absl::StatusOr<std::vector<Shape>> FusedMatMulShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(PostOpsOf(args.attrs).status());
  const Shape &a = args.inputs[0], &b = args.inputs[1];
  if (a.rank() != 2 || b.rank() != 2) return absl::InvalidArgumentError("needs two matrices");
  const bool transpose_a = args.attrs.Bool("transpose_a"), transpose_b = args.attrs.Bool("transpose_b");
  const Shape inner_a({a[transpose_a ? 0 : 1]}), inner_b({b[transpose_b ? 1 : 0]});
  RETURN_IF_ERROR(inner_a.Merge(inner_b).status());
  const Shape y({a[transpose_a ? 1 : 0], b[transpose_b ? 0 : 1]});
  RETURN_IF_ERROR(CheckBias(y, args.inputs[2]));
  return std::vector<Shape>{y};
}

absl::StatusOr<std::vector<Shape>> FilterBiasShape(const ShapeArgs& args) {
  ASSIGN_OR_RETURN(const Shape y, Conv2DOutputShape(args.attrs, args.inputs[0], args.inputs[1]));
  RETURN_IF_ERROR(y.Merge(args.inputs[2]).status());
  return std::vector<Shape>{args.inputs[1], Shape({args.inputs[1][3]})};
}

std::vector<AttrDef> WithActivation(std::vector<AttrDef> attrs) {
  attrs.push_back({"activation", std::string("none")});
  attrs.push_back({"alpha", 0.0});
  return attrs;
}

}  // namespace

void RegisterFused(OpRegistry& registry) {
  registry.Add(
      {.name = "FusedConv2D",
       .inputs = {{"x"}, {"filter"}, {"bias"}},
       .outputs = {{"y"}},
       .types = {{"T", kFloatTypes}},
       .attrs = WithActivation(Conv2DAttrDefs()),
       .shape = FusedConv2DShape,
       .flops = [](const KernelSpec& of) { return Conv2DFlops(of.outputs[0].shape, of.inputs[1].shape); },
       .gradient = NoGradient(kByThePass),
       .kernels = WithSixteenBits("FusedConv2D",
                                  Kernels<float, double, BFloat16>(
                                      "CPU", [](auto tag) { return &MakeFusedConv2D<typename decltype(tag)::type>; }),
                                  FusedByWinograd)});
  registry.Add({.name = "FusedMatMul",
                .inputs = {{"a"}, {"b"}, {"bias"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = WithActivation({{"transpose_a", false}, {"transpose_b", false}}),
                .shape = FusedMatMulShape,
                .flops = MatMulFlops,
                .gradient = NoGradient(kByThePass),
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeFusedMatMul<typename decltype(tag)::type>; })});
  registry.Add({.name = "Conv2DBackpropFilterBias",
                .inputs = {{"x"}, {.name = "filter", .shape_only = true}, {"dy"}},
                .outputs = {{"dfilter"}, {"dbias"}},
                .types = {{"T", kFloatTypes}},
                .attrs = Conv2DAttrDefs(),
                .shape = FilterBiasShape,
                .flops = [](const KernelSpec& of) { return Conv2DFlops(of.inputs[2].shape, of.inputs[1].shape); },
                .gradient = NoGradient(kByThePass),
                .kernels = WithSixteenBits(
                    "Conv2DBackpropFilterBias",
                    Kernels<float, double, BFloat16>(
                        "CPU", [](auto tag) { return &MakeBackpropFilterBias<typename decltype(tag)::type>; }),
                    BackpropFilterByWinograd())});
  const auto masked_kernels = [](absl::string_view op) {
    return WithSixteenBits(
        op,
        Kernels<float, double, BFloat16>(
            "CPU", [](auto tag) { return &MakeBackpropInputReluGrad<typename decltype(tag)::type>; }),
        BackpropInputByWinograd());
  };
  OpDef masked = {.name = "Conv2DBackpropInputReluGrad",
                  .inputs = {{.name = "x", .shape_only = true}, {"filter"}, {"dy"}, {"relu"}},
                  .outputs = {{"dx"}},
                  .types = {{"T", kFloatTypes}},
                  .attrs = Conv2DAttrDefs(),
                  .shape = BackpropInputReluGradShape,
                  .flops = [](const KernelSpec& of) { return Conv2DFlops(of.inputs[2].shape, of.inputs[1].shape); },
                  .gradient = NoGradient(kByThePass),
                  .in_place = {{3, 0}},
                  .kernels = masked_kernels("Conv2DBackpropInputReluGrad")};
  registry.Add(masked);
  masked.name = "Conv2DBackpropInputAddReluGrad";
  masked.inputs.push_back({"addend"});
  masked.in_place = {{4, 0}, {3, 0}};
  masked.kernels = masked_kernels(masked.name);
  registry.Add(masked);
}

}  // namespace belfry::ops
