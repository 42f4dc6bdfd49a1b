// Reading event files.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::io {

struct HistogramValue {
  double min = 0, max = 0, num = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits, counts;  // of equal length
};
struct ImageValue {
  int height = 0, width = 0, channels = 0;
  std::string png;  // the bytes in the file, not decoded
};
struct SummaryValue {
  std::string tag;
  std::variant<std::monostate, float, HistogramValue, ImageValue> value;  // monostate: another kind of value
};

struct Event {
  double wall_time = 0;  // seconds since 1970
  int64_t step = 0;
  std::string file_version;  // only in a file's first event
  std::string graph_def;     // serialised
  bool start = false;        // written by SummaryWriter::WriteStart
  std::vector<SummaryValue> values;
};

struct EventFile {
  std::vector<Event> events;
  bool truncated = false;  // a partial record follows the last event: its writer was killed, or is still writing
};

// Parses the bytes of an event file. DataLoss, with the offset, for a record whose checksum is wrong or whose bytes are
// not an event; safe for arbitrary bytes. Thread-safe.
absl::StatusOr<EventFile> ParseEventFile(absl::string_view bytes);
// Reads and parses the file `path`; NotFound or Unavailable if it cannot be read. Every error names the path.
absl::StatusOr<EventFile> ReadEventFile(const std::string& path);

}  // namespace belfry::io
