// Kernels that are loaded at run time. Launching one does nothing.
#include <cstring>

#include "tests/fake_cuda/fake_cuda_state.h"

using namespace belfry::fake_cuda;  // NOLINT: CUDA's functions are global

struct CUlib_st {};
struct CUkern_st {};

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned int,
                                cudaLibraryOption*, void**, unsigned int) {
  if (const cudaError_t error = Trouble("cudaLibraryLoadData", current); error != cudaSuccess) return Done(error);
  if (std::memcmp(code, "\177ELF", 4) != 0) return Done(cudaErrorInvalidKernelImage);
  *library = new CUlib_st();
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  ++world().handles;
  return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char* name) {
  if (const cudaError_t error = Trouble("cudaLibraryGetKernel", current); error != cudaSuccess) return Done(error);
  if (std::strcmp(name, "belfry_kernel") != 0) return Done(cudaErrorSymbolNotFound);
  static CUkern_st any;
  *kernel = &any;
  return cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  delete library;
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  --world().handles;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t, cudaStream_t stream) {
  if (const cudaError_t error = Trouble("cudaLaunchKernel", stream->card); error != cudaSuccess) return Done(error);
  if (kernel == nullptr || grid.x == 0 || block.x == 0 || block.x > 1024 || arguments[0] == nullptr) {
    return Done(cudaErrorInvalidValue);
  }
  return Done(Launch(
      stream, [](void*) {}, nullptr));
}

}  // extern "C"
