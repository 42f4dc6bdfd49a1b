#include "trainers/prediction/link_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry {
namespace {

struct NamedLink {
  absl::string_view name;
  double latency, bandwidth;
};

// Bandwidths are what is left of the line for data: TCP carries 1,448 bytes in each 1,538 of Ethernet, 94 %, and at
// 10 Gbit/s rarely all of that; 100 Gbit/s InfiniBand carries some 90 % (nccl-tests on such clusters). Latencies are
// typical of a small message in user space: through the kernel's TCP, and through verbs. They are assumptions; a file
// of measurements replaces them.
constexpr NamedLink kLinks[] = {
    {"1gbe", 50e-6, 0.117e9},
    {"10gbe", 25e-6, 1.1e9},
    {"ib100", 2e-6, 11e9},
};

bool IsPositive(double value) { return std::isfinite(value) && value > 0; }

absl::Status CheckPoint(const LinkPoint& point) {
  if (IsPositive(point.bytes) && IsPositive(point.seconds)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(point.bytes, " bytes in ", point.seconds, " seconds; expected two positive numbers"));
}

absl::StatusOr<LinkPoint> ParsePoint(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  LinkPoint point;
  if (words.size() != 2 || !absl::SimpleAtod(words[0], &point.bytes) || !absl::SimpleAtod(words[1], &point.seconds)) {
    return absl::InvalidArgumentError(absl::StrCat("'", line, "'; expected \"bytes seconds\""));
  }
  RETURN_IF_ERROR(CheckPoint(point));
  return point;
}

}  // namespace

LinkTable LinkTable::Linear(double latency, double bandwidth) {
  LinkTable table;
  table.latency_ = latency;
  table.seconds_per_byte_ = 1 / bandwidth;
  return table;
}

absl::StatusOr<LinkTable> LinkTable::Fit(absl::Span<const LinkPoint> points) {
  // Weighted by 1 / seconds^2, so that the time of a small message counts as much as that of a large one.
  double weights = 0, bytes = 0, seconds = 0, squares = 0, products = 0;
  for (const LinkPoint& point : points) {
    RETURN_IF_ERROR(CheckPoint(point));
    const double weight = 1 / (point.seconds * point.seconds);
    weights += weight;
    bytes += weight * point.bytes;
    seconds += weight * point.seconds;
    squares += weight * point.bytes * point.bytes;
    products += weight * point.bytes * point.seconds;
  }
  const bool alike = std::all_of(points.begin(), points.end(),
                                 [&](const LinkPoint& point) { return point.bytes == points.front().bytes; });
  if (alike) return absl::InvalidArgumentError("A link's line needs messages of at least two sizes");
  double slope = (weights * products - bytes * seconds) / (weights * squares - bytes * bytes);
  double latency = (seconds - slope * bytes) / weights;
  if (latency < 0) {
    latency = 0;
    slope = products / squares;
  }
  if (!IsPositive(slope)) {
    return absl::InvalidArgumentError("The time of a message does not grow with its size, so it has no bandwidth");
  }
  return Linear(latency, 1 / slope);
}

absl::StatusOr<LinkTable> LinkTable::Interpolate(std::vector<LinkPoint> points) {
  if (points.size() < 2) return absl::InvalidArgumentError("A link's table needs messages of at least two sizes");
  for (size_t i = 0; i < points.size(); ++i) {
    RETURN_IF_ERROR(CheckPoint(points[i]));
    if (i > 0 && points[i].bytes <= points[i - 1].bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("Sizes must ascend, but ", points[i].bytes, " bytes come after ", points[i - 1].bytes));
    }
  }
  LinkTable table;
  table.points_ = std::move(points);
  return table;
}

absl::StatusOr<LinkTable> LinkTable::Parse(absl::string_view text) {
  std::vector<LinkPoint> points;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const absl::StatusOr<LinkPoint> point = ParsePoint(line);
    if (!point.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", point.status().message()));
    }
    if (!points.empty() && point->bytes <= points.back().bytes) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": sizes must ascend, but ", point->bytes,
                                                     " bytes come after ", points.back().bytes));
    }
    points.push_back(*point);
  }
  return Interpolate(std::move(points));
}

absl::StatusOr<LinkTable> LinkTable::Find(const std::string& name) {
  for (const NamedLink& link : kLinks) {
    if (link.name == name) return Linear(link.latency, link.bandwidth);
  }
  const absl::StatusOr<std::string> text = io::ReadFile(name, io::kMaxNoteBytes);
  if (!text.ok()) {
    return absl::Status(
        text.status().code(),
        absl::StrCat("'", name, "' is neither 1gbe, 10gbe, ib100 nor a file: ", text.status().message()));
  }
  absl::StatusOr<LinkTable> table = Parse(*text);
  if (table.ok()) return table;
  return absl::Status(table.status().code(), absl::StrCat(name, ": ", table.status().message()));
}

double LinkTable::Seconds(double bytes) const {
  if (points_.empty()) return latency_ + bytes * seconds_per_byte_;
  if (bytes <= points_.front().bytes) return points_.front().seconds;
  if (bytes >= points_.back().bytes) return points_.back().seconds * bytes / points_.back().bytes;
  const auto above = std::upper_bound(points_.begin(), points_.end(), bytes,
                                      [](double size, const LinkPoint& point) { return size < point.bytes; });
  const LinkPoint &from = above[-1], &to = *above;
  const double part = std::log(bytes / from.bytes) / std::log(to.bytes / from.bytes);
  return from.seconds * std::pow(to.seconds / from.seconds, part);
}

}  // namespace belfry
