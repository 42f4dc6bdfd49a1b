#include "framework/io/trace_file.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace belfry::io {

int TraceFile::AddRow(absl::string_view group, absl::string_view name) {
  const auto known = std::find(groups_.begin(), groups_.end(), std::string(group));
  const auto index = static_cast<int>(known - groups_.begin());
  if (known == groups_.end()) groups_.emplace_back(group);
  rows_.push_back({index, std::string(name)});
  return static_cast<int>(rows_.size()) - 1;
}

void TraceFile::AddSpan(int row, absl::string_view name, absl::string_view category, absl::Time begin, absl::Time end,
                        std::string details) {
  spans_.push_back({row, std::string(name), std::string(category), begin, end, std::move(details)});
}

std::string TraceFile::ToJson() const {
  using nlohmann::json;
  json events = json::array();
  for (size_t i = 0; i < groups_.size(); ++i) {
    events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", i}, {"args", {{"name", groups_[i]}}}});
    events.push_back({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", i}, {"args", {{"sort_index", i}}}});
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    const int group = rows_[i].group;
    events.push_back(
        {{"ph", "M"}, {"name", "thread_name"}, {"pid", group}, {"tid", i}, {"args", {{"name", rows_[i].name}}}});
    events.push_back(
        {{"ph", "M"}, {"name", "thread_sort_index"}, {"pid", group}, {"tid", i}, {"args", {{"sort_index", i}}}});
  }
  absl::Time zero = absl::InfiniteFuture();
  for (const Span& span : spans_) zero = std::min(zero, span.begin);
  for (const Span& span : spans_) {
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"cat", span.category},
                      {"pid", rows_[span.row].group},
                      {"tid", span.row},
                      {"ts", absl::ToDoubleMicroseconds(span.begin - zero)},
                      {"dur", absl::ToDoubleMicroseconds(span.end - span.begin)},
                      {"args", json::parse(span.details)}});
  }
  const json file = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return file.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace belfry::io
