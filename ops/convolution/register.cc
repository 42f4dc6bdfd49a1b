#include "ops/builtin_ops.h"
#include "ops/convolution/convolution_ops.h"

namespace belfry::ops {

void RegisterConvolutionOps(OpRegistry& registry) {
  RegisterConv2D(registry);
  RegisterConv2DTranspose(registry);
  RegisterFusedConv2D(registry);
}

}  // namespace belfry::ops
