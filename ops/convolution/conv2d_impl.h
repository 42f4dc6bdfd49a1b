// What the convolution ops share. Internal.
#pragma once

#include "framework/graph/op_def.h"
#include "ops/onednn/convolution.h"

namespace belfry::ops {

std::vector<AttrDef> Conv2DAttrDefs();
// The attributes of one convolution op, for another one over the same images.
Attrs Conv2DAttrs(const Attrs& attrs);

// The output [N, H', W', K] of x [N, H, W, C] and filter [R, S, C / groups, K]; extents may be unknown.
absl::StatusOr<Shape> Conv2DOutputShape(const Attrs& attrs, const Shape& x, const Shape& filter);
// Of a convolution or a gradient of it, whose `y` or dy and filter these are.
double Conv2DFlops(const Shape& y, const Shape& filter);
// The whole geometry. REQUIRES: the shapes are known and Conv2DOutputShape accepts them.
onednn::Conv2DShape Conv2DGeometry(const Attrs& attrs, const TensorSpec& x, const Shape& filter);

// Conv2DBackpropFilterBias by the kernels of Conv2DBackpropFilter and BiasAddGrad.
absl::StatusOr<Kernel> MakeFilterThenBias(const KernelSpec& spec, absl::string_view device_type);

}  // namespace belfry::ops
