// Input: a metrics file.
#include "trainers/plots/run_metrics.h"

#include <cmath>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"
#include "trainers/plots/plot_page.h"

namespace belfry::trainers {
namespace {

// Lines that parse to `run`, if each of its columns has one value per step.
std::string Print(const RunMetrics& run) {
  std::map<int64_t, nlohmann::json> lines;
  if (run.lines > 0) lines[run.last_step];
  for (const auto& [key, curve] : run.curves) {
    for (const auto& [number, column] : curve.columns()) {
      lines[number][key] = column.count == 0 ? nlohmann::json() : nlohmann::json(column.last);
    }
  }
  std::string text;
  for (auto& [step, line] : lines) {
    line["step"] = step;
    text += line.dump() + "\n";
  }
  return text;
}

bool OneValueEach(const RunMetrics& run) {
  for (const auto& [key, curve] : run.curves) {
    for (const auto& [number, column] : curve.columns()) {
      if (curve.width() > 1 || column.count > 1) return false;
    }
  }
  return true;
}

void CheckSame(const RunMetrics& a, const RunMetrics& b) {
  for (const auto& [key, curve] : a.curves) {
    if (curve.columns().empty()) continue;
    const auto other = b.curves.find(key);
    BELFRY_CHECK(other != b.curves.end() && other->second.columns().size() == curve.columns().size());
    for (const auto& [number, column] : curve.columns()) {
      const Column& same = other->second.columns().at(number);
      BELFRY_CHECK(same.count == column.count && same.last == column.last && same.first_step == column.first_step);
    }
  }
}

}  // namespace
}  // namespace belfry::trainers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  using namespace belfry::trainers;
  std::istringstream in(std::string(fuzz::Input(data, size).Rest()));
  const auto run = ParseRunMetrics(in, "run");
  if (!run.ok()) {
    BELFRY_CHECK(absl::IsInvalidArgument(run.status()));
    return 0;
  }
  for (const auto& [key, curve] : run->curves) {
    BELFRY_CHECK(curve.columns().size() <= Curve::kMaxColumns);
    int64_t before = -1;
    for (const auto& [number, column] : curve.columns()) {
      BELFRY_CHECK(before < column.first_step && column.first_step <= column.last_step);
      BELFRY_CHECK(column.count == 0 || (column.min <= column.last && column.last <= column.max));
      before = column.last_step;
    }
  }
  if (OneValueEach(*run)) {
    std::istringstream printed(Print(*run));
    const auto again = ParseRunMetrics(printed, "printed");
    BELFRY_CHECK(again.ok());
    CheckSame(*run, *again);
  }
  const std::string page = PlotPage({*run});
  const std::string head = "id=\"data\">";
  const size_t begin = page.find(head) + head.size();
  const auto json = nlohmann::json::parse(page.substr(begin, page.find('<', begin) - begin), nullptr, false);
  BELFRY_CHECK(json.is_object() && json["runs"].size() == 1);
  return 0;
}
