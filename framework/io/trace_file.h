// A file that chrome://tracing and ui.perfetto.dev show as rows of spans.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace belfry::io {

// Collects spans, and writes them at once, in Google's "Trace Event Format" (JSON; docs.google.com/document/d/
// 1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). One thread at a time.
class TraceFile {
 public:
  // A new row in a group of that name: "host" and "training loop", "/cpu:0" and "compute stream". Groups and rows are
  // shown in the order of their first use.
  int AddRow(absl::string_view group, absl::string_view name);
  // A span of a row that AddRow returned. `details`: an object that is shown when the span is chosen.
  void AddSpan(int row, absl::string_view name, absl::string_view category, absl::Time begin, absl::Time end);
  void AddSpan(int row, absl::string_view name, absl::string_view category, absl::Time begin, absl::Time end,
               const nlohmann::json& details);
  size_t spans() const { return spans_.size(); }
  // Times are written in microseconds since the first span. Bytes that are no UTF-8 are replaced.
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
