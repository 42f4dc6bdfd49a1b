#include "framework/device/cuda/compiled_kernels.h"

#include <algorithm>
#include <utility>

#include "framework/base/library/cache_folder.h"
#include "framework/base/status.h"
#include "framework/device/cuda/cubin_file.h"
#include "framework/device/cuda/native.h"
#include "framework/device/cuda/nvrtc.h"

namespace belfry {
namespace {

constexpr char kName[] = "belfry_kernel";
constexpr int64_t kMaxBlocks = int64_t{1} << 20;

class CudaKernel final : public CompiledKernel {
 public:
  static absl::StatusOr<std::shared_ptr<const CompiledKernel>> Load(const Card& card, const std::string& cubin) {
    RETURN_IF_ERROR(card.MakeCurrent());
    auto kernel = std::shared_ptr<CudaKernel>(new CudaKernel(card));
    RETURN_IF_ERROR(
        card.Check(cudaLibraryLoadData(&kernel->library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
                   "cudaLibraryLoadData"));
    RETURN_IF_ERROR(
        card.Check(cudaLibraryGetKernel(&kernel->kernel_, kernel->library_, kName), "cudaLibraryGetKernel"));
    return kernel;
  }
  ~CudaKernel() override {
    if (library_ == nullptr) return;
    cudaSetDevice(card_.ordinal());
    if (cudaLibraryUnload(library_) != cudaSuccess) cudaGetLastError();
  }

  absl::Status Launch(Stream& stream, int64_t blocks, const void* argument, size_t) const override {
    void* arguments[] = {const_cast<void*>(argument)};
    const dim3 grid(static_cast<unsigned>(std::min(blocks, kMaxBlocks)));
    return card_.Check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), grid, dim3(kCompiledThreads), arguments,
                                        0, NativeStream(stream)),
                       "cudaLaunchKernel");
  }

 private:
  explicit CudaKernel(const Card& card) : card_(card) {}

  const Card& card_;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

absl::StatusOr<std::shared_ptr<const CompiledKernel>> Compile(const Card& card, const std::string& source) {
  const auto [major, minor] = card.capability();
  const CubinFile file(CacheFolder(), source, major, minor);
  if (const std::string cubin = file.Read(); !cubin.empty()) {
    absl::StatusOr<std::shared_ptr<const CompiledKernel>> kernel = CudaKernel::Load(card, cubin);
    if (kernel.ok()) return kernel;
  }
  ASSIGN_OR_RETURN(const std::string cubin, CompileCubin(source, major, minor));
  file.Write(cubin);
  return CudaKernel::Load(card, cubin);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CompiledKernel>> CompiledKernels::Get(const Card& card,
                                                                           const std::string& source) {
  {
    const MutexLock lock(mutex_);
    if (const auto found = kernels_.find(source); found != kernels_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const CompiledKernel> kernel, Compile(card, source));
  const MutexLock lock(mutex_);
  return kernels_.try_emplace(source, std::move(kernel)).first->second;
}

}  // namespace belfry
