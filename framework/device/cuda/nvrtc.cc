#include "framework/device/cuda/nvrtc.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/library/cuda_libraries.h"
#include "framework/base/status.h"
#include "framework/device/cuda/nvrtc_prelude.h"

namespace belfry {
namespace {

constexpr const char* kOptions[] = {"--std=c++20", "--device-as-default-execution-space", "--fmad=false",
                                    "--disable-warnings"};

using Program = struct NvrtcProgram*;

// NVRTC's functions, declared here because its header is in a package of its own. A result of 0 is success.
struct Nvrtc {
  int (*Version)(int* major, int* minor) = nullptr;
  int (*GetNumSupportedArchs)(int* count) = nullptr;
  int (*GetSupportedArchs)(int* archs) = nullptr;
  int (*CreateProgram)(Program* program, const char* source, const char* name, int headers, const char* const* texts,
                       const char* const* names) = nullptr;
  int (*CompileProgram)(Program program, int count, const char* const* options) = nullptr;
  int (*GetProgramLogSize)(Program program, size_t* size) = nullptr;
  int (*GetProgramLog)(Program program, char* log) = nullptr;
  int (*GetCUBINSize)(Program program, size_t* size) = nullptr;
  int (*GetCUBIN)(Program program, char* cubin) = nullptr;
  int (*DestroyProgram)(Program* program) = nullptr;
  const char* (*GetErrorString)(int result) = nullptr;
};

absl::StatusOr<Nvrtc> Open() {
  const std::string major = absl::StrCat(CUDART_VERSION / 1000), soname = absl::StrCat("libnvrtc.so.", major);
  ASSIGN_OR_RETURN(void* const library, OpenCudaLibrary(soname, major));
  Nvrtc nvrtc;
  const char* lacking = nullptr;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) lacking = name;
  };
  find("nvrtcVersion", nvrtc.Version);
  find("nvrtcGetNumSupportedArchs", nvrtc.GetNumSupportedArchs);
  find("nvrtcGetSupportedArchs", nvrtc.GetSupportedArchs);
  find("nvrtcCreateProgram", nvrtc.CreateProgram);
  find("nvrtcCompileProgram", nvrtc.CompileProgram);
  find("nvrtcGetProgramLogSize", nvrtc.GetProgramLogSize);
  find("nvrtcGetProgramLog", nvrtc.GetProgramLog);
  find("nvrtcGetCUBINSize", nvrtc.GetCUBINSize);
  find("nvrtcGetCUBIN", nvrtc.GetCUBIN);
  find("nvrtcDestroyProgram", nvrtc.DestroyProgram);
  find("nvrtcGetErrorString", nvrtc.GetErrorString);
  if (lacking == nullptr) return nvrtc;
  return absl::FailedPreconditionError(absl::StrCat(soname, " has no function ", lacking));
}

const absl::StatusOr<Nvrtc>& TheNvrtc() {
  static const auto* const nvrtc = new absl::StatusOr<Nvrtc>(Open());
  return *nvrtc;
}

std::string VersionOf(const Nvrtc& nvrtc) {
  int major = 0, minor = 0;
  nvrtc.Version(&major, &minor);
  return absl::StrCat(major, ".", minor);
}

class OwnedProgram {
 public:
  OwnedProgram(const Nvrtc& nvrtc, const std::string& source) : nvrtc_(nvrtc) {
    created_ = nvrtc_.CreateProgram(&program_, source.c_str(), "belfry_kernel.cu", 0, nullptr, nullptr);
  }
  OwnedProgram(const OwnedProgram&) = delete;
  ~OwnedProgram() {
    if (created_ == 0) nvrtc_.DestroyProgram(&program_);
  }
  int created() const { return created_; }
  Program get() const { return program_; }

  std::string Log() const {
    size_t size = 0;
    if (nvrtc_.GetProgramLogSize(program_, &size) != 0 || size <= 1) return "";
    std::string log(size, '\0');
    nvrtc_.GetProgramLog(program_, log.data());
    log.resize(size - 1);
    return log;
  }

 private:
  const Nvrtc& nvrtc_;
  Program program_ = nullptr;
  int created_ = 0;
};

}  // namespace

absl::Status CheckNvrtc(int major, int minor) {
  const absl::StatusOr<Nvrtc>& nvrtc = TheNvrtc();
  RETURN_IF_ERROR(nvrtc.status());
  int count = 0;
  if (nvrtc->GetNumSupportedArchs(&count) != 0) return absl::InternalError("nvrtcGetNumSupportedArchs failed");
  std::vector<int> known(static_cast<size_t>(count));
  if (nvrtc->GetSupportedArchs(known.data()) != 0) return absl::InternalError("nvrtcGetSupportedArchs failed");
  if (std::find(known.begin(), known.end(), 10 * major + minor) != known.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("NVRTC ", VersionOf(*nvrtc), " does not know compute capability ",
                                                    major, ".", minor, ", but ", absl::StrJoin(known, ", ")));
}

std::string NvrtcOptions() { return absl::StrJoin(kOptions, " "); }

absl::StatusOr<std::string> CompileCubin(absl::string_view source, int major, int minor) {
  const absl::StatusOr<Nvrtc>& nvrtc = TheNvrtc();
  RETURN_IF_ERROR(nvrtc.status());
  const auto error = [&](const char* call, int result, absl::string_view log) {
    return absl::InternalError(absl::StrCat(call, ": ", nvrtc->GetErrorString(result), log.empty() ? "" : "\n", log));
  };
  const OwnedProgram program(*nvrtc, absl::StrCat(NvrtcPrelude(), source));
  if (program.created() != 0) return error("nvrtcCreateProgram", program.created(), "");
  const std::string arch = absl::StrCat("--gpu-architecture=sm_", major, minor);
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(arch.c_str());
  if (const int result = nvrtc->CompileProgram(program.get(), static_cast<int>(options.size()), options.data())) {
    return error("nvrtcCompileProgram", result, program.Log());
  }
  size_t size = 0;
  if (const int result = nvrtc->GetCUBINSize(program.get(), &size)) return error("nvrtcGetCUBINSize", result, "");
  std::string cubin(size, '\0');
  if (const int result = nvrtc->GetCUBIN(program.get(), cubin.data())) return error("nvrtcGetCUBIN", result, "");
  return cubin;
}

}  // namespace belfry
