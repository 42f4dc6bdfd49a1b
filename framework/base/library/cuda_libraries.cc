#include "framework/base/library/cuda_libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "framework/base/library/cuda_folders.h"
#include "framework/base/library/needed.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

const char* OfProcess(const char* name) { return std::getenv(name); }

bool IsNvidias(const std::string& soname) {
  for (const char* prefix : {"libcu", "libnv", "libnccl"}) {
    if (absl::StartsWith(soname, prefix)) return true;
  }
  return false;
}

// The result of a search: a handle, or why there is none.
struct Search {
  void* library = nullptr;
  std::string refused;  // the loader's words about a file that is there
};

void SearchFolders(const std::vector<fs::path>& folders, const std::string& soname, Search& search) {
  for (const fs::path& folder : folders) {
    std::error_code error;
    const fs::path file = folder / soname;
    if (search.library != nullptr || !fs::exists(file, error)) continue;
    search.library = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (search.library == nullptr) search.refused = dlerror();
  }
}

// The opened library; NotFound if there is none, FailedPrecondition if one is there and cannot be loaded.
absl::StatusOr<void*> SearchAll(const std::string& soname) {
  Search search;
  SearchFolders(ChosenCudaFolders(OfProcess), soname, search);
  if (search.library == nullptr) search.library = dlopen(soname.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (search.library == nullptr) SearchFolders(CudaFolders(OfProcess), soname, search);
  if (search.library != nullptr) return search.library;
  if (!search.refused.empty()) return absl::FailedPreconditionError(search.refused);
  return absl::NotFoundError(soname);
}

// CUDA's major version, "13", from a library that has its number; empty if none of them does.
std::string CudaMajor(const std::vector<std::string>& sonames) {
  for (const std::string& soname : sonames) {
    absl::string_view rest = soname;
    for (const char* name : {"libcublasLt.so.", "libcublas.so.", "libnvrtc.so.", "libcudart.so."}) {
      if (absl::ConsumePrefix(&rest, name)) return std::string(rest);
    }
  }
  return "";
}

// The packages with a library, for apt and for pip.
struct Packages {
  std::string apt, pip;
};
Packages PackagesOf(const std::string& soname, const std::string& cuda) {
  const std::string number = cuda.empty() ? "<major version of CUDA>" : cuda;
  // pip's packages of CUDA 13 and later have no suffix, but for those of libraries with versions of their own.
  const std::string suffix = cuda == "12" ? "-cu12" : "";
  if (absl::StartsWith(soname, "libcublas"))
    return {absl::StrCat("libcublas-", number, "-*"), "nvidia-cublas" + suffix};
  if (absl::StartsWith(soname, "libcudnn")) {
    return {absl::StrCat("libcudnn9-cuda-", number), absl::StrCat("nvidia-cudnn-cu", number)};
  }
  if (absl::StartsWith(soname, "libnccl")) return {"libnccl2", absl::StrCat("nvidia-nccl-cu", number)};
  if (absl::StartsWith(soname, "libnvrtc")) {
    return {absl::StrCat("cuda-nvrtc-", number, "-*"), "nvidia-cuda-nvrtc" + suffix};
  }
  return {"cuda", "cuda-toolkit"};
}

absl::Status Missing(const std::vector<std::string>& sonames, const std::string& cuda) {
  std::vector<std::string> apt, pip;
  for (const std::string& soname : sonames) {
    const Packages packages = PackagesOf(soname, cuda);
    apt.push_back(packages.apt);
    pip.push_back(packages.pip);
  }
  std::vector<fs::path> folders = ChosenCudaFolders(OfProcess);
  for (const fs::path& folder : CudaFolders(OfProcess)) folders.push_back(folder);
  return absl::NotFoundError(
      absl::StrCat("there is no ", absl::StrJoin(sonames, ", no "), " where the loader looks",
                   folders.empty() ? "" : ", nor in ", DescribeFolders(folders), "; apt-get install ",
                   absl::StrJoin(apt, " "), " from NVIDIA's repository, or pip install ", absl::StrJoin(pip, " "),
                   ", or set BELFRY_CUDA_PATH to a folder with ", sonames.size() == 1 ? "it" : "them"));
}

// One error for all of `sonames` that cannot be opened.
absl::Status OpenAll(const std::vector<std::string>& sonames, const std::string& cuda) {
  std::vector<std::string> missing;
  for (const std::string& soname : sonames) {
    const absl::Status opened = SearchAll(soname).status();
    if (absl::IsNotFound(opened)) {
      missing.push_back(soname);
    } else {
      RETURN_IF_ERROR(opened);
    }
  }
  return missing.empty() ? absl::OkStatus() : Missing(missing, cuda);
}

}  // namespace

absl::StatusOr<void*> OpenCudaLibrary(const std::string& soname, const std::string& cuda) {
  absl::StatusOr<void*> library = SearchAll(soname);
  if (absl::IsNotFound(library.status())) return Missing({soname}, cuda);
  return library;
}

absl::Status OpenNeededCudaLibraries(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> needed, NeededLibraries(path));
  std::vector<std::string> nvidias;
  for (const std::string& soname : needed) {
    if (IsNvidias(soname)) nvidias.push_back(soname);
  }
  return OpenAll(nvidias, CudaMajor(needed));
}

std::string FileOf(const void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) == 0 || info.dli_fname == nullptr ? "" : info.dli_fname;
}

}  // namespace belfry
