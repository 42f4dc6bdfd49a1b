#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/data/text/text_files_impl.h"

namespace belfry::data {
namespace {

namespace fs = std::filesystem;

// True if one of `words` is among the words of letters of `name`.
bool HasWord(absl::string_view name, absl::Span<const absl::string_view> words) {
  const std::string lower = absl::AsciiStrToLower(name);
  size_t begin = 0;
  for (size_t i = 0; i <= lower.size(); ++i) {
    if (i < lower.size() && absl::ascii_isalpha(static_cast<unsigned char>(lower[i]))) continue;
    if (std::find(words.begin(), words.end(), absl::string_view(lower).substr(begin, i - begin)) != words.end()) {
      return true;
    }
    begin = i + 1;
  }
  return false;
}

std::vector<std::string> WithWord(absl::Span<const std::string> names, absl::Span<const absl::string_view> words) {
  std::vector<std::string> found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found),
               [&](const std::string& name) { return HasWord(name, words); });
  return found;
}

}  // namespace

absl::StatusOr<TextFiles> FindTextFiles(const std::string& path, absl::FunctionRef<bool(absl::string_view)> chosen) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return TextFiles{.train = {path}};
  ASSIGN_OR_RETURN(std::vector<std::string> names, io::ListFolder(path));
  const auto other = [&](const std::string& name) {
    return absl::StartsWith(name, ".") || !chosen(name) || !fs::is_regular_file(fs::path(path) / name, error);
  };
  names.erase(std::remove_if(names.begin(), names.end(), other), names.end());
  if (names.empty()) return absl::NotFoundError(absl::StrCat(path, ": the folder holds no such file"));
  std::sort(names.begin(), names.end());
  TextFiles files{.train = WithWord(names, {"train"}), .validation = {}};
  if (files.train.empty()) {
    files.train = std::move(names);
  } else {
    files.validation = WithWord(names, {"val", "valid", "validation"});
  }
  for (auto* part : {&files.train, &files.validation}) {
    for (std::string& name : *part) name = (fs::path(path) / name).string();
  }
  return files;
}

absl::StatusOr<TextData> OpenTextFiles(const std::string& path, const TextFiles& files, int64_t window,
                                       double validation, OpenStream open) {
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  };
  ASSIGN_OR_RETURN(const auto train, open(files.train));
  if (files.validation.empty()) {
    auto data = SplitIntoWindows(train, window, validation);
    return data.ok() ? std::move(data) : named(data.status());
  }
  ASSIGN_OR_RETURN(const auto held_out, open(files.validation));
  auto data = SplitIntoWindows(train, window, 0);
  if (!data.ok()) return named(data.status());
  auto windows = OpenWindows(held_out, 0, held_out->size(), window);
  if (!windows.ok()) return named(windows.status());
  data->validation = *std::move(windows);
  return data;
}

}  // namespace belfry::data
