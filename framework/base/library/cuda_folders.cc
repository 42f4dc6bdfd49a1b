#include "framework/base/library/cuda_folders.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

std::string Value(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

// The folders in `folder` whose names begin with `prefix`, in descending order: newer versions before older ones.
std::vector<fs::path> Subfolders(const fs::path& folder, const char* prefix = "") {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (absl::StartsWith(at->path().filename().string(), prefix) && at->is_directory(ignored)) found.push_back(*at);
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

// Absolute folders that exist, each once.
class Folders {
 public:
  void Add(const fs::path& folder) {
    std::error_code error;
    if (!folder.is_absolute() || !fs::is_directory(folder, error)) return;
    const fs::path same = fs::canonical(folder, error);
    if (std::find(real_.begin(), real_.end(), same) != real_.end()) return;
    real_.push_back(same);
    folders_.push_back(folder);
  }
  void AddNvidia(const fs::path& site_packages) {
    for (const fs::path& package : Subfolders(site_packages / "nvidia")) Add(package / "lib");
  }
  void AddPython(const fs::path& prefix) {
    for (const fs::path& version : Subfolders(prefix / "lib", "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) AddNvidia(version / packages);
    }
  }
  std::vector<fs::path> Take() { return std::move(folders_); }

 private:
  std::vector<fs::path> folders_, real_;
};

// Adds the packages of the first python3 in `path`: those beside it and those of the program that it links to, which
// differ in a virtual environment. In pyenv's folder of scripts, adds those of all its versions.
void AddPythonOfPath(const std::string& path, Folders& folders) {
  for (const absl::string_view entry : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    const fs::path folder = std::string(entry);
    std::error_code error;
    const fs::path program = fs::canonical(folder / "python3", error);
    if (error) continue;
    folders.AddPython(folder.parent_path());
    folders.AddPython(program.parent_path().parent_path());
    if (folder.filename() == "shims") {
      for (const fs::path& version : Subfolders(folder.parent_path() / "versions", "3")) folders.AddPython(version);
    }
    return;
  }
}

}  // namespace

std::vector<fs::path> ChosenCudaFolders(const Environment& environment) {
  Folders folders;
  const std::string chosen = Value(environment, "BELFRY_CUDA_PATH");
  for (const absl::string_view entry : absl::StrSplit(chosen, ':', absl::SkipEmpty())) {
    const fs::path folder = std::string(entry);
    folders.Add(folder);
    for (const char* part : {"lib64", "lib"}) folders.Add(folder / part);
    for (const fs::path& package : Subfolders(folder)) folders.Add(package / "lib");
    folders.AddNvidia(folder);
  }
  return folders.Take();
}

std::vector<fs::path> CudaFolders(const Environment& environment) {
  Folders folders;
  std::vector<fs::path> installations = {Value(environment, "CUDA_HOME"), Value(environment, "CUDA_PATH"),
                                         "/usr/local/cuda"};
  for (const fs::path& version : Subfolders("/usr/local", "cuda-")) installations.push_back(version);
  installations.emplace_back("/opt/cuda");
  for (const fs::path& installation : installations) {
    for (const char* part : {"lib64", "lib"}) folders.Add(installation / part);
  }
  const fs::path conda = Value(environment, "CONDA_PREFIX");
  folders.AddPython(Value(environment, "VIRTUAL_ENV"));
  folders.AddPython(conda);
  if (!conda.empty()) folders.Add(conda / "lib");
  AddPythonOfPath(Value(environment, "PATH"), folders);
  for (const fs::path& prefix :
       {fs::path(Value(environment, "HOME")) / ".local", fs::path("/usr/local"), fs::path("/usr")}) {
    folders.AddPython(prefix);
  }
  return folders.Take();
}

std::string DescribeFolders(const std::vector<fs::path>& folders) {
  std::vector<std::string> lines;
  for (const fs::path& folder : folders) {
    const fs::path parent = folder.parent_path().parent_path();
    const std::string line = parent.filename() == "nvidia" ? (parent / "*" / "lib").string() : folder.string();
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  return absl::StrJoin(lines, ", ");
}

}  // namespace belfry
