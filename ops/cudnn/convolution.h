// Convolution on GPUs by cuDNN. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"

namespace belfry::ops {

// A convolution of images [n, h, w, c] with filters [k, r, s, c / groups] into [n, out_h, out_w, k]. Both ends of an
// axis are padded with equally many zeros. Rows of images are contiguous.
struct GpuConv {
  enum class Kind { kForward, kBackwardData, kBackwardFilter };
  Kind kind = Kind::kForward;
  DType dtype = DType::kFloat32;
  int64_t n = 0, h = 0, w = 0, c = 0, k = 0, r = 1, s = 1, out_h = 0, out_w = 0;
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  int64_t end_h = 0, end_w = 0;     // padding at the bottom and on the right beyond pad_h and pad_w; may be negative
  bool bias = false, relu = false;  // applied to the outputs; kForward only

  int64_t image_elements() const { return n * h * w * c; }
  int64_t filter_elements() const { return k * r * s * (c / groups); }
  int64_t output_elements() const { return n * out_h * out_w * k; }
};

// Operands in device memory. The kind determines which is written: y, x or filter.
struct GpuConvOperands {
  void *x, *filter, *y;
  const void* bias;
  void* workspace;
};
struct GpuConvCore {
  std::function<absl::Status(Stream& stream, const GpuConvOperands& operands)> run;
  size_t workspace_bytes = 0;
};

// A core that runs cuDNN. Unimplemented if it has no engine for this convolution.
absl::StatusOr<GpuConvCore> MakeLibraryGpuConv(const GpuConv& conv, Device& device);

}  // namespace belfry::ops
