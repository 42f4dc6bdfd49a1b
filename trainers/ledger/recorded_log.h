// The logs of a run as its chain records them, part by part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace belfry::trainers {

// A file or, of a log, the bytes [begin, end).
struct RecordedBytes {
  uint64_t begin = 0, end = 0;
  std::string digest;  // io::DigestText
  int64_t step = 0;    // when it was recorded
  size_t line = 0;     // of the chain, from 1
};

// Adds a later record. A run that goes on may have cut the log back, and then records it from an earlier byte on.
void AddPart(RecordedBytes part, std::vector<RecordedBytes>& log);

// A line for each part of a log with the contents `text` that is not as it was recorded: "run/metrics.jsonl, lines 3 to
// 4 (bytes 497 to 997): not as they were when step 40 was done (line 16 of chain.jsonl)".
std::vector<std::string> ChangedParts(const std::string& path, absl::string_view text,
                                      const std::vector<RecordedBytes>& log);

}  // namespace belfry::trainers
