#include "ops/gpu/library_versions.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "absl/strings/str_cat.h"
#include "framework/base/library/cuda_libraries.h"

namespace belfry::ops {
namespace {

constexpr size_t kOldestCudnn = 90800;
constexpr size_t kCuda = CUDART_VERSION / 1000;

}  // namespace

absl::Status CheckCudaLibraries() {
  const size_t version = cudnnGetVersion();
  const size_t cuda = cudnnGetCudartVersion() / 1000;
  if (version >= kOldestCudnn && cuda == kCuda) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      FileOf(reinterpret_cast<const void*>(&cudnnGetVersion)), " is cuDNN ", version / 10000, ".", version / 100 % 100,
      " for CUDA ", cuda, ", but 9.8 or later for CUDA ", kCuda, " is needed: apt-get install libcudnn9-cuda-", kCuda,
      ", or pip install nvidia-cudnn-cu", kCuda, " and set BELFRY_CUDA_PATH to its folder"));
}

}  // namespace belfry::ops
