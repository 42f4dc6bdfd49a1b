// Convolution on GPUs where cuDNN has no engine, and the layout changes around both. Internal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "framework/device/device.h"
#include "ops/cudnn/convolution.h"

namespace belfry::ops {

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
