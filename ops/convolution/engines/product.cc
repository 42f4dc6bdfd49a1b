#include <algorithm>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "ops/convolution/engines/product_impl.h"
#include "ops/onednn/primitive.h"
#include "ops/product/product_ops.h"
#include "ops/simd/product_impl.h"

namespace belfry::ops {
namespace {

// With x, y and the filter as matrices [N H W, C], [N H W, K] and [C, K], y = x filter and dx = dy filter^T. oneDNN's
// code for processors without AVX-512 calls a product, too, but one for each image.
bool IsProduct(const ConvolutionGeometry& s) {
  return s.dtype == DType::kFloat32 && s.groups == 1 && s.r * s.s == 1 && std::max({s.stride_h, s.stride_w}) == 1 &&
         std::max({s.pad_top, s.pad_bottom, s.pad_left, s.pad_right}) == 0 && !onednn::ProductsRepeat(s.dtype);
}

// True for results whose rows fill the registers of our product, or nearly.
bool FillsRegisters(int64_t columns) {
  constexpr int64_t kPanel = simd::kProductWidth * simd::Vector<float>::kLanes, kManyPanels = 4;
  return columns % kPanel == 0 || columns >= kManyPanels * kPanel;
}

TensorSpec Matrix(const TensorSpec& images) {
  const Shape& shape = images.shape;
  return {images.dtype, Shape({shape.elements(0, shape.rank() - 1), shape[-1]})};
}

Attrs ProductAttrs(Attrs attrs, bool transpose_a, bool transpose_b) {
  attrs.Set("transpose_a", transpose_a);
  attrs.Set("transpose_b", transpose_b);
  return attrs;
}

bool ProductServes(const ConvolutionNode& node) { return IsProduct(node.shape) && FillsRegisters(node.shape.k); }
bool ProductServesData(const ConvolutionNode& node) { return IsProduct(node.shape) && FillsRegisters(node.shape.c); }

MadeKernel MakeProductForward(const ConvolutionNode& node) {
  const KernelSpec& spec = node.spec;
  const Attrs attrs = ProductAttrs(spec.attrs, false, false);
  std::vector<TensorSpec> inputs = {Matrix(spec.inputs[0]), Matrix(spec.inputs[1])};
  if (node.has_bias()) inputs.push_back(spec.inputs[2]);
  const TensorSpec output = Matrix(spec.outputs[0]);
  const KernelSpec product{spec.name,   attrs,          inputs,        absl::MakeSpan(&output, 1),
                           spec.device, spec.constants, spec.prepared, spec.node};
  return node.has_bias() ? MakeFusedMatMul<float>(product) : MakeMatMul<float>(product);
}

MadeKernel MakeProductBackwardData(const ConvolutionNode& node) {
  const KernelSpec& spec = node.spec;
  const Attrs attrs = ProductAttrs({}, false, true);
  const TensorSpec inputs[] = {Matrix(spec.inputs[2]), Matrix(spec.inputs[1])};
  const TensorSpec output = Matrix(spec.outputs[0]);
  ASSIGN_OR_RETURN(Kernel kernel,
                   MakeMatMul<float>({spec.name, attrs, inputs, absl::MakeSpan(&output, 1), spec.device}));
  kernel.run = [run = std::move(kernel.run)](const KernelContext& context) {
    const void* const factors[] = {context.inputs[2], context.inputs[1]};
    KernelContext product = context;
    product.inputs = factors;
    return run(product);
  };
  return kernel;
}

}  // namespace

const ConvolutionEngine kProductForward = {"product", &ProductServes, &MakeProductForward};
const ConvolutionEngine kProductBackwardData = {"product", &ProductServesData, &MakeProductBackwardData,
                                                /*fuses=*/false};

}  // namespace belfry::ops
