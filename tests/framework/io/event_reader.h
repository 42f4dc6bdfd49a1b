// Reads event files back.
#pragma once

#include <cstdint>
#include <optional>
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
  std::string png;  // as it stands in the file, not looked at
};
struct SummaryValue {
  std::string tag;
  std::variant<std::monostate, float, HistogramValue, ImageValue> value;  // monostate: of another kind
};

struct Event {
  double wall_time = 0;  // seconds since 1970
  int64_t step = 0;
  std::string file_version;  // of a file's first event
  std::string graph_def;     // serialised
  bool start = false;        // SummaryWriter::WriteStart
  std::vector<SummaryValue> values;
};

struct EventFile {
  std::vector<Event> events;
  bool truncated = false;  // a partial record follows the last event: its writer was killed, or is still at it
};

// The events in the bytes of a file. DataLoss, with the offset, for a record with a wrong checksum or whose bytes are
// no event; any bytes at all are safe. Thread-safe.
absl::StatusOr<EventFile> ParseEventFile(absl::string_view bytes);
// Those of the file `path`; NotFound or Unavailable if it cannot be read. Every error names the path.
absl::StatusOr<EventFile> ReadEventFile(const std::string& path);

}  // namespace belfry::io
