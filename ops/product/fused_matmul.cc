#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "ops/activation/epilogue_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/onednn/matmul.h"
#include "ops/onednn/primitive_kernel_impl.h"
#include "ops/product/blocked_product_impl.h"
#include "ops/product/product_ops.h"
#include "ops/product/tile_product_impl.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> FusedMatMulShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(EpilogueOf(args.attrs).status());
  ASSIGN_OR_RETURN(const Shape y, ProductOfMatrices(args));
  RETURN_IF_ERROR(CheckBias(y, args.inputs[2]));
  return std::vector<Shape>{y};
}

// The kernel of a product that packs b, or has it packed if it is constant.
template <class T, class Product>
Kernel Packing(const KernelSpec& spec, const Product& product) {
  using C = typename Product::C;
  const C* const ready = PackedConstant<T>(spec, 1, product);
  const int64_t elements = ready == nullptr ? product.workspace_elements() : product.packed_workspace_elements();
  return Kernel{[product, ready](const KernelContext& context) {
                  const T *const a = context.input<T>(0), *const b = context.input<T>(1);
                  const T* const bias = context.input<T>(2);
                  T* const c = context.output<T>(0);
                  C* const workspace = static_cast<C*>(context.workspace);
                  if (ready != nullptr) {
                    product.RunPacked(a, ready, bias, c, workspace);
                  } else {
                    product.Run(a, b, bias, c, workspace);
                  }
                  return absl::OkStatus();
                },
                sizeof(C) * static_cast<size_t>(elements)};
}

}  // namespace

template <class T>
absl::StatusOr<Kernel> MakeFusedMatMul(const KernelSpec& spec) {
  ASSIGN_OR_RETURN(const Epilogue epilogue, EpilogueOf(spec.attrs));
  const bool transpose_a = spec.attrs.Bool("transpose_a"), transpose_b = spec.attrs.Bool("transpose_b");
  const Shape& y = spec.outputs[0].shape;
  const int64_t k = spec.inputs[0].shape[transpose_a ? 0 : 1];
  if constexpr (std::is_same_v<T, BFloat16>) {
    const simd::Tiles tiles = TileProduct::Tiles(y[0], y[1], k, transpose_a);
    if (tiles != simd::Tiles::kNone && HasElements(spec)) {
      const ElementLoops activation = ActivationLoops(epilogue);
      Kernel kernel = Packing<T>(spec, TileProduct(tiles, y[0], y[1], k, transpose_a, transpose_b, activation));
      kernel.engine = "tiles";
      return kernel;
    }
  }
  if (OneDnnComputes(kDTypeOf<T>) && onednn::ProductsRepeat(kDTypeOf<T>) && HasElements(spec)) {
    const onednn::MatMulShape shape{.m = y[0],
                                    .k = k,
                                    .n = y[1],
                                    .transpose_a = transpose_a,
                                    .transpose_b = transpose_b,
                                    .dtype = kDTypeOf<T>,
                                    .output_dtype = kDTypeOf<T>};
    const bool whole = onednn::Applies(epilogue);
    const onednn::MatMulOptions options{.bias = true, .post_ops = whole ? epilogue : Epilogue()};
    ASSIGN_OR_RETURN(std::optional<Kernel> kernel,
                     PrimitiveKernel(spec, onednn::MatMul(shape, options), {0, 1, 2}, {0}));
    if (kernel.has_value()) return whole ? *std::move(kernel) : ThenActivation<T>(*std::move(kernel), spec, epilogue);
  }
  if (HasElements(spec) && (kIsSixteenBit<T> || y.elements() * k >= kSmallProduct)) {
    Kernel kernel = Packing<T>(spec, BlockedProduct<T>(y[0], y[1], k, transpose_a, transpose_b));
    return ThenActivation<T>(std::move(kernel), spec, epilogue);
  }
  ASSIGN_OR_RETURN(Kernel product, MakeMatMul<T>(WithoutBias(spec)));
  return ThenBiasAndActivation<T>(std::move(product), spec, epilogue);
}

template absl::StatusOr<Kernel> MakeFusedMatMul<float>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeFusedMatMul<double>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeFusedMatMul<Half>(const KernelSpec& spec);
template absl::StatusOr<Kernel> MakeFusedMatMul<BFloat16>(const KernelSpec& spec);

absl::StatusOr<Shape> ProductOfMatrices(const ShapeArgs& args) {
  const Shape &a = args.inputs[0], &b = args.inputs[1];
  if (a.rank() != 2 || b.rank() != 2) return absl::InvalidArgumentError("needs two matrices");
  const bool transpose_a = args.attrs.Bool("transpose_a"), transpose_b = args.attrs.Bool("transpose_b");
  const Shape inner_a({a[transpose_a ? 0 : 1]}), inner_b({b[transpose_b ? 1 : 0]});
  RETURN_IF_ERROR(inner_a.Merge(inner_b).status());
  return Shape({a[transpose_a ? 1 : 0], b[transpose_b ? 0 : 1]});
}

void RegisterFusedMatMul(OpRegistry& registry) {
  registry.Add({.name = "FusedMatMul",
                .inputs = {{"a"}, {"b"}, {"bias"}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = WithEpilogueAttrs({{"transpose_a", false}, {"transpose_b", false}}),
                .shape = FusedMatMulShape,
                .flops = MatMulFlops,
                .gradient = NoGradient(kByThePass),
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeFusedMatMul<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
