// The metrics file of a run: one JSON object per line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry::trainers {

// The beginning of a run, or of the rest of one.
struct RunStart {
  int64_t step = 0;        // the first one that it does
  bool evaluated = false;  // the model as it is after `step` steps is evaluated already
  bool logged = true;      // the line of the step before is written; false: it comes again
};

// Appends JSON lines to a file, each in one write, so that a killed run leaves whole lines. Not thread-safe.
class MetricsWriter {
 public:
  // An empty path makes a writer that drops everything. Unavailable names a file that cannot be opened. `start` is the
  // beginning of a run that owns the file: lines that an interrupted run wrote for this and later steps are removed.
  // Only regular files are trimmed.
  static absl::StatusOr<MetricsWriter> Open(const std::string& path, std::optional<RunStart> start = std::nullopt);

  // Writes {"step": 100, "loss": 2.1, ...} in the given order. NaN and infinities are written as null, since JSON has
  // no such numbers. Unavailable if the file cannot be written.
  absl::Status Write(absl::Span<const std::pair<absl::string_view, double>> values);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace belfry::trainers
