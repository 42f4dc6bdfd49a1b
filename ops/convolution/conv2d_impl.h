// Attributes, shapes and geometry shared by the convolution ops. Internal.
#pragma once

#include "framework/graph/op_def.h"
#include "ops/common/convolution_geometry.h"
#include "ops/nn.h"

namespace belfry::ops {

std::vector<AttrDef> Conv2DAttrDefs();
Attrs Conv2DAttrs(const Conv2DOptions& options);
// The convolution attributes among `attrs`, for another op over the same images.
Attrs Conv2DAttrs(const Attrs& attrs);

// An attribute that the rewrite "filter_layouts" sets for GPUs: the filter, or its gradient, is [K, R, S, C / groups],
// as cuDNN has it. Everything else here has filters [R, S, C / groups, K].
inline constexpr absl::string_view kFilterKrsc = "filter_krsc";
bool HasKrscFilter(const Attrs& attrs);
// The shape of a filter as [R, S, C / groups, K].
Shape FilterShape(const Attrs& attrs, const Shape& filter);

// The output shape [N, H', W', K] of x [N, H, W, C] and filter [R, S, C / groups, K]; extents may be unknown.
absl::StatusOr<Shape> Conv2DOutputShape(const Attrs& attrs, const Shape& x, const Shape& filter);
// Floating-point operations of a convolution, or of one of its gradients, from the shapes of y (or dy) and the filter,
// in either layout.
double Conv2DFlops(const Shape& y, const Shape& filter);
// The full geometry. REQUIRES: the shapes are known, and Conv2DOutputShape accepts them.
ConvolutionGeometry Conv2DGeometry(const Attrs& attrs, const TensorSpec& x, const Shape& filter);

// CPU kernels of Conv2D and its two gradients, for float, double and BFloat16; ops that do one of them and more run
// them, too.
absl::StatusOr<Kernel> MakeConv2D(const KernelSpec& spec);
absl::StatusOr<Kernel> MakeConv2DBackpropInput(const KernelSpec& spec);
absl::StatusOr<Kernel> MakeConv2DBackpropFilter(const KernelSpec& spec);

// A kernel of Conv2DBackpropFilterBias that runs those of Conv2DBackpropFilter and BiasAddGrad, which `make_filter` and
// `make_bias` make.
absl::StatusOr<Kernel> MakeFilterThenBias(const KernelSpec& spec, const KernelFactory& make_filter,
                                          const KernelFactory& make_bias);
// `filter`, a CPU kernel of Conv2DBackpropFilter, or, if the node is a Conv2DBackpropFilterBias, a kernel of that.
absl::StatusOr<Kernel> WithBiasGradient(const KernelSpec& spec, Kernel filter);

// A kernel of Conv2DTranspose: that of Conv2DBackpropInput, which `make` makes.
absl::StatusOr<Kernel> MakeConv2DTranspose(const KernelSpec& spec, const KernelFactory& make);

}  // namespace belfry::ops
