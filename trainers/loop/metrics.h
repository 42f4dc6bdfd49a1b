// A run's numbers, one JSON object a line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry::trainers {

// Appends to a file of JSON lines, each written whole, so that a killed run leaves whole lines. Not thread-safe.
class MetricsWriter {
 public:
  // An empty path makes a writer that drops everything. Unavailable names the file that cannot be opened. If `first` is
  // above 0, a run goes on at that step: lines of it and of later ones, which an earlier run wrote, are taken out, but
  // for its evaluation after so many steps; of a regular file only.
  static absl::StatusOr<MetricsWriter> Open(const std::string& path, int64_t first = 0);

  // {"step": 100, "loss": 2.1, ...}: names and values in order. NaN and infinities, which JSON has no numbers for, are
  // written as null.
  absl::Status Write(absl::Span<const std::pair<absl::string_view, double>> values);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace belfry::trainers
