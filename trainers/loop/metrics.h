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

// Appends JSON lines to a file, each in one write, so that a killed run leaves whole lines. Not thread-safe.
class MetricsWriter {
 public:
  // An empty path makes a writer that drops everything. Unavailable names a file that cannot be opened. `first` is the
  // step at which a run starts that owns the file: lines that an interrupted run wrote for this and later steps are
  // removed, except, for first > 0, its evaluation after `first` steps. Only regular files are trimmed.
  static absl::StatusOr<MetricsWriter> Open(const std::string& path, std::optional<int64_t> first = std::nullopt);

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
