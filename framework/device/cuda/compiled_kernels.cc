#include "framework/device/cuda/compiled_kernels.h"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/library/cache_folder.h"
#include "framework/base/status.h"
#include "framework/device/cuda/native.h"
#include "framework/device/cuda/nvrtc.h"
#include "framework/device/cuda/nvrtc_prelude.h"
#include "spdlog/spdlog.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "belfry_kernel";
constexpr int64_t kMaxBlocks = int64_t{1} << 20;

uint64_t Checksum(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// The file of a kernel: its checksum and its machine code.
class CubinFile {
 public:
  explicit CubinFile(absl::string_view key) {
    const std::string folder = CacheFolder();
    if (folder.empty()) return;
    const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
    path_ = fs::path(folder) / "kernels" / absl::StrFormat("%016x%016x.cubin", hash.high64, hash.low64);
  }
  // Empty if there is none, or not a whole one.
  std::string Read() const {
    std::error_code error;
    const auto size = fs::file_size(path_, error);
    if (error) return "";
    std::string bytes(size, '\0');
    std::ifstream file(path_, std::ios::binary);
    if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) return "";
    uint64_t checksum = 0;
    if (bytes.size() <= sizeof(checksum)) return "";
    std::copy_n(bytes.data(), sizeof(checksum), reinterpret_cast<char*>(&checksum));
    std::string cubin = bytes.substr(sizeof(checksum));
    return Checksum(cubin) == checksum ? cubin : "";
  }
  // Writes a temporary file and renames it, so that no other process or thread reads half of it.
  void Write(const std::string& cubin) const {
    if (path_.empty()) return;
    std::error_code error;
    fs::create_directories(path_.parent_path(), error);
    const fs::path beside =
        path_.string() + absl::StrCat(".", getpid(), ".", absl::Hex(reinterpret_cast<uintptr_t>(this)), ".tmp");
    const uint64_t checksum = Checksum(cubin);
    std::ofstream file(beside, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
    file.write(cubin.data(), static_cast<std::streamsize>(cubin.size()));
    file.close();
    if (file) fs::rename(beside, path_, error);
    if (!file || error) fs::remove(beside, error);
  }

 private:
  fs::path path_;  // empty: nothing is kept
};

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
  const CubinFile file(absl::StrCat("sm_", major, minor, " ", NvrtcDescription(), NvrtcPrelude(), source));
  if (const std::string cubin = file.Read(); !cubin.empty()) {
    absl::StatusOr<std::shared_ptr<const CompiledKernel>> kernel = CudaKernel::Load(card, cubin);
    if (kernel.ok()) return kernel;
  }
  ASSIGN_OR_RETURN(const std::string cubin, CompileCubin(source, major, minor));
  file.Write(cubin);
  return CudaKernel::Load(card, cubin);
}

}  // namespace

bool CompiledKernels::Compiles(const Card& card) {
  const MutexLock lock(mutex_);
  if (state_ == State::kUnknown) {
    const absl::Status nvrtc = CheckNvrtc(card.capability().first, card.capability().second);
    state_ = nvrtc.ok() ? State::kYes : State::kNo;
    if (!nvrtc.ok()) {
      spdlog::warn("{}: element-wise ops are not fused, and take more time and memory: {}", card.label(),
                   std::string(nvrtc.message()));
    }
  }
  return state_ == State::kYes;
}

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
