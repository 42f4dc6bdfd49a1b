#include "ops/gpu/autotune.h"

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/library/cache_folder.h"
#include "framework/io/file.h"

namespace belfry::ops {
namespace {

// Lines with a larger count are taken for corrupt.
constexpr int kMaxCandidates = 1000;
constexpr uint64_t kMaxBytes = uint64_t{1} << 26;

}  // namespace

std::string AutotuneCache::DefaultPath() {
  const std::string folder = CacheFolder();
  return folder.empty() ? "" : (std::filesystem::path(folder) / "autotune.txt").string();
}

AutotuneCache::AutotuneCache(std::string path) : path_(std::move(path)) {
  const MutexLock lock(mutex_);
  Read();
}

// Lines are only ever appended, so where a key occurs twice the later line is the newer choice, and wins. The fragment
// of a line that a crash leaves is skipped as malformed or, if only its key is cut, never looked up; either way it
// costs one repeated measurement.
void AutotuneCache::Read() {
  std::error_code error;
  const uint64_t size = path_.empty() ? 0 : std::filesystem::file_size(path_, error);
  if (error || size == size_) return;
  const absl::StatusOr<std::string> text = io::ReadFile(path_, kMaxBytes);
  if (!text.ok()) return;
  size_ = text->size();
  // Add() completes a last line without a newline first, so that a fragment does not swallow the next entry.
  ends_cut_ = !text->empty() && text->back() != '\n';
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits('\t', 2));
    Choice choice;
    if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &choice.index) ||
        !absl::SimpleAtoi(fields[1], &choice.count) || choice.count < 1 || choice.count > kMaxCandidates ||
        choice.index < 0 || choice.index >= choice.count) {
      continue;
    }
    choices_[fields[2]] = choice;
  }
}

// A choice is an index into a list of candidates. If the length of the list has changed, for example with the library's
// version, the index means nothing.
int AutotuneCache::Lookup(absl::string_view key, int count) const {
  const auto found = choices_.find(key);
  return found == choices_.end() || found->second.count != count ? -1 : found->second.index;
}

int AutotuneCache::Find(absl::string_view key, int count) {
  const MutexLock lock(mutex_);
  const int known = Lookup(key, count);
  if (known >= 0) return known;
  Read();
  return Lookup(key, count);
}

void AutotuneCache::Add(absl::string_view key, int count, int index) {
  const MutexLock lock(mutex_);
  choices_[std::string(key)] = {index, count};
  if (path_.empty()) return;
  // One short line, flushed at once in append mode, so processes that share the file do not split each other's lines.
  // Failures are ignored: the choice stays in memory.
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  std::ofstream(path_, std::ios::app) << absl::StrCat(ends_cut_ ? "\n" : "", index, "\t", count, "\t", key, "\n")
                                      << std::flush;
  ends_cut_ = false;
}

}  // namespace belfry::ops
