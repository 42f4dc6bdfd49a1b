#include "trainers/prediction/trace_times.h"

#include <algorithm>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry {

absl::StatusOr<KernelTimes> ParseKernelTimes(absl::string_view trace) {
  using Json = nlohmann::json;
  const Json parsed = Json::parse(trace.begin(), trace.end(), nullptr, /*allow_exceptions=*/false);
  const auto events = parsed.is_object() ? parsed.find("traceEvents") : parsed.end();
  if (!parsed.is_object() || events == parsed.end() || !events->is_array()) {
    return absl::InvalidArgumentError("it is no trace: a JSON object with \"traceEvents\" is expected");
  }
  std::map<std::string, std::vector<double>> seconds;
  for (const Json& event : *events) {
    if (!event.is_object()) continue;
    const auto category = event.find("cat"), name = event.find("name"), duration = event.find("dur");
    if (category == event.end() || *category != "kernel" || name == event.end() || !name->is_string() ||
        duration == event.end() || !duration->is_number() || duration->get<double>() < 0) {
      continue;
    }
    seconds[name->get<std::string>()].push_back(duration->get<double>() * 1e-6);
  }
  if (seconds.empty()) return absl::InvalidArgumentError("it has no spans of kernels");
  KernelTimes medians;
  for (auto& [name, times] : seconds) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    medians[name] = *middle;
  }
  return medians;
}

absl::StatusOr<KernelTimes> ReadKernelTimes(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path, io::kMaxDataBytes));
  absl::StatusOr<KernelTimes> times = ParseKernelTimes(text);
  if (times.ok()) return times;
  return absl::Status(times.status().code(), absl::StrCat(path, ": ", times.status().message()));
}

}  // namespace belfry
