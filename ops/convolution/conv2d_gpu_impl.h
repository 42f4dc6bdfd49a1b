// Convolution on GPUs: what cuDNN or, where it has nothing, plain kernels compute, and what brings our tensors into
// that form. Internal.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"

namespace belfry::ops {

// A convolution of images [n, h, w, c] with filters [k, r, s, c / groups] to outputs [n, out_h, out_w, k], padded by as
// many zeros at both ends of an axis. Rows of images are contiguous.
struct GpuConv {
  enum class Kind { kForward, kBackwardData, kBackwardFilter };
  Kind kind = Kind::kForward;
  DType dtype = DType::kFloat32;
  int64_t n = 0, h = 0, w = 0, c = 0, k = 0, r = 1, s = 1, out_h = 0, out_w = 0;
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  bool bias = false, relu = false;  // added to and applied to the outputs; kForward only

  int64_t image_elements() const { return n * h * w * c; }
  int64_t filter_elements() const { return k * r * s * (c / groups); }
  int64_t output_elements() const { return n * out_h * out_w * k; }
};

// Operands in device memory. One of the first three is written, by the kind: y, x or filter.
struct GpuConvOperands {
  void *x, *filter, *y;
  const void* bias;
  void* workspace;
};
struct GpuConvCore {
  std::function<absl::Status(Stream& stream, const GpuConvOperands& operands)> run;
  size_t workspace_bytes = 0;
};

// cuDNN's. Unimplemented if it has none for this convolution.
absl::StatusOr<GpuConvCore> MakeLibraryGpuConv(const GpuConv& conv, Device& device);
// One thread per result, or a team per filter element. Without bias and relu.
GpuConvCore MakePlainGpuConv(const GpuConv& conv);

// `to` [n, low_h + h + high_h, low_w + w + high_w, c]: images with zeros around them; and back, without what surrounds
// them. `size`: bytes of an element.
struct GpuBorder {
  int64_t n, h, w, c, low_h, high_h, low_w, high_w;
};
absl::Status PadImages(Stream& stream, size_t size, const GpuBorder& border, const void* from, void* to);
absl::Status CropImages(Stream& stream, size_t size, const GpuBorder& border, const void* from, void* to);

// `to` [columns, rows] is the transpose of `from` [rows, columns]: filters [r, s, c, k] to [k, r, s, c], and back.
absl::Status TransposeOnGpu(Stream& stream, size_t size, int64_t rows, int64_t columns, const void* from, void* to);

}  // namespace belfry::ops
