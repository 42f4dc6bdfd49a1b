// Convolution on GPUs: cuDNN's kernels or, where it has none, plain ones, and the layout changes around them. Internal.
#pragma once

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
// A core of plain kernels: one thread per result, or one team per filter element. Ignores bias and relu.
GpuConvCore MakePlainGpuConv(const GpuConv& conv);

// PadImages copies images [n, h, w, c] into `to` [n, low_h + h + high_h, low_w + w + high_w, c], with zeros around
// them; CropImages copies them back. `size` is the size of an element in bytes.
struct GpuBorder {
  int64_t n, h, w, c, low_h, high_h, low_w, high_w;
};
absl::Status PadImages(Stream& stream, size_t size, const GpuBorder& border, const void* from, void* to);
absl::Status CropImages(Stream& stream, size_t size, const GpuBorder& border, const void* from, void* to);

// Transposes `from` [rows, columns] into `to` [columns, rows]: filters [r, s, c, k] to [k, r, s, c], and back.
absl::Status TransposeOnGpu(Stream& stream, size_t size, int64_t rows, int64_t columns, const void* from, void* to);

}  // namespace belfry::ops
