#include "trainers/ledger/recorded_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/io/checksum.h"
#include "trainers/ledger/run_ledger.h"

namespace belfry::trainers {
namespace {

int64_t LinesBefore(absl::string_view text, size_t offset) {
  return std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
}

}  // namespace

void AddPart(RecordedBytes part, std::vector<RecordedBytes>& log) {
  while (!log.empty() && log.back().end > part.begin) log.pop_back();
  log.push_back(std::move(part));
}

std::vector<std::string> ChangedParts(const std::string& path, absl::string_view text,
                                      const std::vector<RecordedBytes>& log) {
  std::vector<std::string> changed;
  for (const RecordedBytes& part : log) {
    const bool there = part.begin <= part.end && part.end <= text.size();
    if (there && io::DigestText(text.substr(part.begin, part.end - part.begin)) == part.digest) continue;
    std::string where = absl::StrCat("bytes ", part.begin, " to ", part.end);
    if (there && absl::EndsWith(path, "metrics.jsonl")) {
      const int64_t first = LinesBefore(text, part.begin) + 1, last = LinesBefore(text, part.end);
      where = absl::StrCat("lines ", first, " to ", std::max(first, last), " (", where, ")");
    }
    changed.push_back(absl::StrCat(path, ", ", where, ": not as they were when step ", part.step, " was done (line ",
                                   part.line, " of ", kChainFile, ")"));
  }
  return changed;
}

}  // namespace belfry::trainers
