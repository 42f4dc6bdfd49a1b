// Fake GPUs have no libraries, so their products and convolutions are the plain ones.
#include "ops/math/matmul_gpu_impl.h"
#include "ops/nn/conv2d_gpu_impl.h"

namespace belfry::ops {

absl::StatusOr<GpuMatMulCore> MakeLibraryGpuMatMul(const GpuMatMul&, Device&) {
  return absl::UnimplementedError("fake GPUs have no cuBLAS");
}
absl::StatusOr<GpuConvCore> MakeLibraryGpuConv(const GpuConv&, Device&) {
  return absl::UnimplementedError("fake GPUs have no cuDNN");
}

}  // namespace belfry::ops
