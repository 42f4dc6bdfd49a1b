#include "tests/fake_gpu/host_compiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/half.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "framework/io/checksum.h"
#include "framework/io/file.h"
#include "tests/fake_gpu/fake_gpu.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kHeaders = R"(
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
)";
constexpr absl::string_view kBefore = R"(
namespace belfry {
struct Half { uint16_t bits; };
struct BFloat16 { uint16_t bits; };
static float (*widen_half)(uint16_t);
static uint16_t (*narrow_half)(float);
inline float Widen(Half x) { return widen_half(x.bits); }
inline float Widen(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float y;
  std::memcpy(&y, &bits, 4);
  return y;
}
inline Half NarrowTo(Half, float x) { return {narrow_half(x)}; }
inline BFloat16 NarrowTo(BFloat16, float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (x != x) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
}  // namespace belfry
#define __global__
#define __launch_bounds__(threads)
#define __grid_constant__
struct Dim { unsigned x; };
static thread_local Dim blockIdx, threadIdx, gridDim;
)";
constexpr absl::string_view kAfter = R"(
extern "C" void belfry_use(float (*widen)(uint16_t), uint16_t (*narrow)(float)) {
  belfry::widen_half = widen;
  belfry::narrow_half = narrow;
}
extern "C" void belfry_run(const void* table, unsigned blocks, unsigned threads) {
  gridDim.x = blocks;
  for (blockIdx.x = blocks; blockIdx.x-- > 0;) {
    for (threadIdx.x = threads; threadIdx.x-- > 0;) {
      belfry::ops::belfry_kernel(*static_cast<const belfry::Table*>(table));
    }
  }
}
)";

// Kernels have the same bits without optimisation, which takes longer than running them.
constexpr absl::string_view kCompiler = BELFRY_HOST_COMPILER " -std=c++20 -O0 -w -ffp-contract=off -fPIC ";

using Run = void (*)(const void* table, unsigned blocks, unsigned threads);
using Use = void (*)(float (*widen)(uint16_t), uint16_t (*narrow)(float));

// Conversions of float16, a type that not every compiler has.
float WidenHalf(uint16_t bits) { return static_cast<float>(std::bit_cast<Half>(bits)); }
uint16_t NarrowHalf(float x) { return std::bit_cast<uint16_t>(static_cast<Half>(x)); }

class HostKernel final : public CompiledKernel {
 public:
  explicit HostKernel(Run run) : run_(run) {}
  absl::Status Launch(Stream& stream, int64_t blocks, const void* argument, size_t bytes) const override {
    const auto* const first = static_cast<const unsigned char*>(argument);
    // Fewer blocks than were asked for, so that each of them takes several chunks, as on a small card.
    EnqueueOnFakeGpu(stream, [run = run_, blocks = static_cast<unsigned>(blocks + 1) / 2,
                              table = std::vector<unsigned char>(first, first + bytes)] {
      run(table.data(), blocks, kCompiledThreads);
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }

 private:
  const Run run_;
};

// Compiles the file `source` to `output` under a name of this process, as other test programs may do the same.
absl::Status Compile(absl::string_view options, const std::string& source, const std::string& output) {
  const std::string own = absl::StrCat(output, ".", getpid());
  const std::string command = absl::StrCat(kCompiler, options, " -o ", own, " ", source);
  if (std::system(command.c_str()) != 0) return absl::InternalError(absl::StrCat("this failed: ", command));
  std::error_code error;
  fs::rename(own, output, error);
  return absl::OkStatus();
}

// A folder that all test programs share, and other builds with them (`dev`).
std::string Folder() {
  const char* const folder = std::getenv("BELFRY_HOST_KERNELS");
  return folder != nullptr ? folder : BELFRY_BUILD_FOLDER "/host_kernels";
}

std::string PathOf(absl::string_view text) {
  const std::string key = absl::StrCat(kCompiler, text);
  return absl::StrCat(Folder(), "/", absl::Hex(io::Checksum(key.data(), key.size())));
}

// The compiled source. Headers, which take most of the time, are compiled once.
absl::StatusOr<std::string> Library(const std::string& source) {
  const std::string headers = PathOf(kHeaders) + ".h";
  const std::string text = absl::StrCat("#include \"", headers, "\"\n", kBefore,
                                        absl::StrReplaceAll(source, {{"Table table)", "Table& table)"}}), kAfter);
  const std::string library = PathOf(text) + ".so";
  if (fs::exists(library)) return library;
  std::error_code error;
  fs::create_directories(Folder(), error);
  const std::string own = absl::StrCat(library, ".", getpid(), ".cc");
  if (!fs::exists(headers + ".gch")) {
    RETURN_IF_ERROR(io::WriteFile(own, kHeaders));
    fs::rename(own, headers, error);
    RETURN_IF_ERROR(Compile("-x c++-header", headers, headers + ".gch"));
  }
  RETURN_IF_ERROR(io::WriteFile(own, text));
  // The program has the libraries, and finding them takes the linker half of the time.
  RETURN_IF_ERROR(Compile("-shared -nostdlib", own, library));
  fs::remove(own, error);
  return library;
}

struct Known {
  Mutex mutex;
  std::map<std::string, std::shared_ptr<const CompiledKernel>> kernels ABSL_GUARDED_BY(mutex);
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CompiledKernel>> CompileForHost(const std::string& source) {
  static auto* const known = new Known();
  const MutexLock lock(known->mutex);
  if (const auto found = known->kernels.find(source); found != known->kernels.end()) return found->second;
  ASSIGN_OR_RETURN(const std::string path, Library(source));
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::InternalError(dlerror());
  reinterpret_cast<Use>(dlsym(library, "belfry_use"))(&WidenHalf, &NarrowHalf);
  auto kernel = std::make_shared<const HostKernel>(reinterpret_cast<Run>(dlsym(library, "belfry_run")));
  known->kernels[source] = kernel;
  return kernel;
}

}  // namespace belfry
