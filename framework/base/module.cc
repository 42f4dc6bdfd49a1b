#include "framework/base/module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "framework/base/library/cuda_libraries.h"
#include "framework/base/status.h"
#include "framework/base/version.h"

namespace belfry {
namespace {

// The folder of the library, or of the program, that contains this function. Libraries for levels of processors lie two
// folders below the one that holds the modules, lib/glibc-hwcaps/x86-64-v3.
std::filesystem::path OwnFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&OwnFolder), &info) == 0 || info.dli_fname == nullptr) return {};
  // Absolute, so that no file of the current folder is taken for a module.
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(info.dli_fname, error).parent_path();
  return folder.parent_path().filename() == "glibc-hwcaps" ? folder.parent_path().parent_path() : folder;
}

std::string EntryName(const std::string& name) { return absl::StrCat("belfry_", name, "_module"); }

// Opens a module. Where the loader does not find libraries of NVIDIA's that it needs, or BELFRY_CUDA_PATH is to come
// first, these are opened before: the loader then takes them, whichever folder they are in.
absl::StatusOr<void*> OpenModule(const std::filesystem::path& path) {
  void* library = std::getenv("BELFRY_CUDA_PATH") == nullptr ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library != nullptr) return library;
  const absl::Status needed = OpenNeededCudaLibraries(path);
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return absl::FailedPreconditionError(absl::StrCat(
      path.filename().string(), " cannot be loaded: ", needed.ok() ? dlerror() : std::string(needed.message())));
}

absl::StatusOr<Module> LoadCuda() {
  if (dlsym(RTLD_DEFAULT, EntryName("cuda").c_str()) == nullptr) {
    const std::filesystem::path folder = OwnFolder();
    std::error_code error;
    if (folder.empty() || !std::filesystem::exists(folder / "libbelfry_cuda.so", error))
      return absl::NotFoundError("this Belfry was built or installed without CUDA");
    // Without a driver there is no GPU, and the module's libraries, of several hundred MB, need not be read.
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) return absl::NotFoundError("this machine has no CUDA driver");
    dlclose(driver);
  }
  return Module::Load("cuda");
}

}  // namespace

absl::StatusOr<Module> Module::Load(const std::string& name) {
  void* entry = dlsym(RTLD_DEFAULT, EntryName(name).c_str());
  if (entry == nullptr) {
    const std::string file = absl::StrCat("libbelfry_", name, ".so");
    const std::filesystem::path folder = OwnFolder(), path = folder / file;
    std::error_code error;
    if (folder.empty() || !std::filesystem::exists(path, error)) {
      return absl::NotFoundError(
          absl::StrCat(path.string(), " does not exist: this Belfry was built or installed without it"));
    }
    ASSIGN_OR_RETURN(void* const library, OpenModule(path));
    entry = dlsym(library, EntryName(name).c_str());
    if (entry == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat(path.string(), " is not a Belfry module: it does not define ", EntryName(name)));
    }
  }
  const Module module(reinterpret_cast<EntryPoint>(entry));
  const auto* const version = module.Find<char>("version");
  if (version == nullptr || std::strcmp(version, kBuild) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("module ", name, " was built for Belfry ",
                                                      version == nullptr ? "?" : version, ", but this is Belfry ",
                                                      kBuild));
  }
  return module;
}

const absl::StatusOr<Module>& CudaModule() {
  static const auto* const module = new absl::StatusOr<Module>(LoadCuda());
  return *module;
}

}  // namespace belfry
