// Trace files: rows of spans, for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace belfry::io {

// Collects spans and serialises them together in Google's "Trace Event Format" (JSON;
// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). Not thread-safe.
class TraceFile {
 public:
  // Adds a row to the group of that name: for example "training loop" to "host", or "compute stream" to "/cpu:0".
  // Groups and rows are shown in the order of their first use.
  int AddRow(absl::string_view group, absl::string_view name);
  // Adds a span to a row that AddRow returned. `details` is shown when the span is selected. REQUIRES: it is the text
  // of a JSON object.
  void AddSpan(int row, absl::string_view name, absl::string_view category, absl::Time begin, absl::Time end,
               std::string details = "{}");
  size_t spans() const { return spans_.size(); }
  // The file's text. Times are in microseconds since the earliest span; invalid UTF-8 is replaced.
  std::string ToJson() const;

 private:
  struct Row {
    int group = 0;
    std::string name;
  };
  struct Span {
    int row = 0;
    std::string name, category;
    absl::Time begin, end;
    std::string details;  // JSON
  };
  std::vector<std::string> groups_;
  std::vector<Row> rows_;
  std::vector<Span> spans_;
};

}  // namespace belfry::io
