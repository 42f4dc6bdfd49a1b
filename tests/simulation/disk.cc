#include "tests/simulation/disk.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/check.h"

namespace belfry::simulation {

namespace fs = std::filesystem;

Disk::~Disk() {
  if (!folder_.empty()) fs::remove_all(folder_);
}

const std::string& Disk::folder() {
  if (!folder_.empty()) return folder_;
  folder_ = (fs::temp_directory_path() / "belfry_simulation.XXXXXX").string();
  BELFRY_CHECK(mkdtemp(folder_.data()) != nullptr);
  return folder_;
}

std::string Disk::WithoutFolder(absl::string_view text) const {
  return folder_.empty() ? std::string(text) : absl::StrReplaceAll(text, {{folder_, "DISK"}});
}

void Disk::Protect(absl::FunctionRef<void()> act) {
  const Checkpoint checkpoint = checkpoint_;
  const std::string copy = absl::StrCat(folder_, ".copy");
  const bool has_folder = !folder_.empty();
  if (has_folder) fs::copy(folder_, copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  act();
  checkpoint_ = checkpoint;
  if (folder_.empty()) return;
  fs::remove_all(folder_);
  if (has_folder) {
    fs::rename(copy, folder_);
  } else {
    folder_.clear();
  }
}

}  // namespace belfry::simulation
