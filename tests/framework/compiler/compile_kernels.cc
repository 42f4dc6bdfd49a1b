// compile_kernels FOLDER: fills FOLDER, which programs find as BELFRY_CACHE_DIR, with the generated kernels of the
// bundled models for cards of all kKernelCapabilities. No card needs to be present. Exits with 3 where there is no
// NVRTC for these cards.
#include <atomic>
#include <cstdio>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/cores.h"
#include "framework/base/status.h"
#include "framework/device/cuda/cubin_file.h"
#include "framework/device/cuda/nvrtc.h"
#include "spdlog/spdlog.h"
#include "tests/framework/compiler/model_kernels.h"

namespace belfry {
namespace {

absl::Status CompileTo(const std::string& folder, const std::string& source, std::atomic<size_t>& bytes) {
  for (const auto& [major, minor] : kKernelCapabilities) {
    ASSIGN_OR_RETURN(const std::string cubin, CompileCubin(source, major, minor));
    if (!CubinFile(folder, source, major, minor).Write(cubin)) {
      return absl::UnavailableError("cannot write to " + folder);
    }
    bytes += cubin.size();
  }
  return absl::OkStatus();
}

absl::Status CompileAll(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> sources, KernelsOfModels());
  std::vector<absl::Status> statuses(sources.size());
  std::atomic<size_t> next = 0, bytes = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < UsableCores(); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < sources.size(); i = next++) statuses[i] = CompileTo(folder, sources[i], bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  std::printf("%zu kernels for %zu kinds of cards, %zu KiB\n", sources.size(), std::size(kKernelCapabilities),
              bytes.load() / 1024);
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: compile_kernels FOLDER\n");
    return 2;
  }
  spdlog::set_level(spdlog::level::err);  // fake GPUs have no libraries
  const auto failed = [](const absl::Status& status) {
    if (!status.ok()) std::fprintf(stderr, "compile_kernels: %s\n", std::string(status.message()).c_str());
    return !status.ok();
  };
  for (const auto& [major, minor] : belfry::kKernelCapabilities) {
    if (failed(belfry::CheckNvrtc(major, minor))) return 3;
  }
  return failed(belfry::CompileAll(argv[1])) ? 1 : 0;
}
