#include "framework/base/machine/processor.h"

#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace belfry {

std::string ProcessorField(absl::string_view name, const std::string& root) {
  std::ifstream file(absl::StrCat(root, "/proc/cpuinfo"));
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(field.first) == name) return std::string(absl::StripAsciiWhitespace(field.second));
  }
  return "";
}

}  // namespace belfry
