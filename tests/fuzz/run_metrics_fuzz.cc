// Input: a metrics file.
#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"
#include "trainers/plots/plots.h"

namespace belfry::trainers {
namespace {

// Lines that parse to `run`, if each of its curves has one point per step.
std::string Print(const RunMetrics& run) {
  std::map<int64_t, nlohmann::json> lines;
  if (run.lines > 0) lines[run.last_step];
  for (const auto& [key, points] : run.curves) {
    for (const auto& [step, value] : points) lines[step][key] = value;  // NaN: null
  }
  std::string text;
  for (auto& [step, line] : lines) {
    line["step"] = step;
    text += line.dump() + "\n";
  }
  return text;
}

bool OnePointEach(const RunMetrics& run) {
  for (const auto& [key, points] : run.curves) {
    const auto same_step = [](const auto& a, const auto& b) { return a.step == b.step; };
    if (std::adjacent_find(points.begin(), points.end(), same_step) != points.end()) return false;
  }
  return true;
}

void CheckSame(const RunMetrics& a, const RunMetrics& b) {
  for (const auto& [key, points] : a.curves) {
    if (points.empty()) continue;
    const auto other = b.curves.find(key);
    BELFRY_CHECK(other != b.curves.end() && other->second.size() == points.size());
    for (size_t i = 0; i < points.size(); ++i) {
      const RunMetrics::Point& same = other->second[i];
      BELFRY_CHECK(same.step == points[i].step);
      BELFRY_CHECK(same.value == points[i].value || (std::isnan(same.value) && std::isnan(points[i].value)));
    }
  }
}

}  // namespace
}  // namespace belfry::trainers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  using namespace belfry::trainers;
  const auto run = ParseRunMetrics(fuzz::Input(data, size).Rest(), "run");
  if (!run.ok()) {
    BELFRY_CHECK(absl::IsInvalidArgument(run.status()));
    return 0;
  }
  for (const auto& [key, points] : run->curves) {
    int64_t before = 0;
    for (const auto& [step, value] : points) {
      BELFRY_CHECK(before <= step && step <= run->last_step);
      before = step;
    }
  }
  if (OnePointEach(*run)) {
    const auto again = ParseRunMetrics(Print(*run), "printed");
    BELFRY_CHECK(again.ok());
    CheckSame(*run, *again);
  }
  const std::string page = PlotPage({*run});
  const std::string head = "id=\"data\">";
  const size_t begin = page.find(head) + head.size();
  const auto json = nlohmann::json::parse(page.substr(begin, page.find('<', begin) - begin), nullptr, false);
  BELFRY_CHECK(json.is_object() && json["runs"].size() == 1);
  for (const auto& curve : json["runs"][0]["curves"]) {
    BELFRY_CHECK(curve["columns"].size() <= 1024);
    int64_t before = -1;
    for (const auto& column : curve["columns"]) {
      BELFRY_CHECK(before < column[0].get<int64_t>());
      before = column[0];
      BELFRY_CHECK(column[1] == 0 || (column[3] <= column[4] && column[3] >= curve["least"]["value"]));
    }
  }
  return 0;
}
