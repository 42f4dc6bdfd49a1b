#include <utility>

#include "framework/base/status.h"
#include "ops/activation/activation_ops.h"
#include "ops/convolution/algorithms_impl.h"
#include "ops/convolution/conv2d_depthwise_impl.h"
#include "ops/convolution/conv2d_direct_impl.h"
#include "ops/convolution/conv2d_impl.h"
#include "ops/convolution/conv2d_winograd_impl.h"
#include "ops/convolution/pointwise_impl.h"

namespace belfry::ops {

bool IsReluAtMost(const Epilogue& epilogue) {
  return epilogue.activation == Activation::kNone || epilogue.activation == Activation::kRelu;
}

absl::StatusOr<std::optional<Kernel>> OwnForward(const KernelSpec& spec, const onednn::Conv2DShape& shape,
                                                 const Epilogue& epilogue) {
  const bool ours = IsReluAtMost(epilogue), relu = epilogue.activation == Activation::kRelu;
  std::optional<Kernel> kernel;
  if (ours) kernel = WinogradForward(spec, shape, relu);
  if (!kernel.has_value()) {
    ASSIGN_OR_RETURN(kernel, PointwiseForward(spec, shape));
  }
  if (!kernel.has_value() && ours) kernel = MakeDirectForward(spec, shape, relu);
  if (!kernel.has_value() && ours) kernel = MakeDepthwiseForward(spec, shape, relu);
  return kernel;
}

absl::StatusOr<std::optional<Kernel>> OwnBackpropInput(const KernelSpec& spec, const onednn::Conv2DShape& shape) {
  std::optional<Kernel> kernel = WinogradBackpropInput(spec, shape);
  if (!kernel.has_value()) {
    ASSIGN_OR_RETURN(kernel, PointwiseBackpropInput(spec, shape));
  }
  if (!kernel.has_value()) kernel = MakeDepthwiseBackpropInput(spec, shape);
  return kernel;
}

absl::StatusOr<std::optional<Kernel>> OwnBackpropFilter(const KernelSpec& spec, const onednn::Conv2DShape& shape) {
  std::optional<Kernel> kernel = WinogradBackpropFilter(spec, shape);
  if (kernel.has_value()) return kernel;
  kernel = MakeDirectBackpropFilter(spec, shape);
  if (!kernel.has_value()) kernel = MakeDepthwiseBackpropFilter(spec, shape);
  if (!kernel.has_value() || spec.outputs.size() == 1) return kernel;
  // Winograd's kernel alone adds up the gradient of the bias, too.
  return MakeFilterThenBias(
      spec, [&](const KernelSpec&) { return *kernel; }, &MakeBiasAddGrad);
}

}  // namespace belfry::ops
