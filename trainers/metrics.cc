#include "trainers/metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace belfry::trainers {
namespace {

constexpr double kLargestExactInteger = 9007199254740992;  // 2^53

}  // namespace

absl::StatusOr<MetricsWriter> MetricsWriter::Open(const std::string& path) {
  MetricsWriter writer;
  if (path.empty()) return writer;
  writer.path_ = path;
  writer.file_.reset(std::fopen(path.c_str(), "a"));
  if (writer.file_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("Cannot open the metrics file ", path, ": ", std::strerror(errno)));
  }
  return writer;
}

absl::Status MetricsWriter::Write(absl::Span<const std::pair<absl::string_view, double>> values) {
  if (file_ == nullptr) return absl::OkStatus();
  nlohmann::ordered_json object;
  for (const auto& [name, value] : values) {
    nlohmann::ordered_json& entry = object[std::string(name)];
    if (value == std::floor(value) && std::fabs(value) < kLargestExactInteger) {
      entry = static_cast<int64_t>(value);
    } else if (std::isfinite(value)) {
      entry = value;
    }
  }
  const std::string line = object.dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0) {
    return absl::UnavailableError(absl::StrCat("Cannot write the metrics file ", path_, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace belfry::trainers
