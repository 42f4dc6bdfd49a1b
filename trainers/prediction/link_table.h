// The time that a message takes from one process to another.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace belfry {

// One measurement of a link.
struct LinkPoint {
  double bytes = 0;
  double seconds = 0;  // from the first byte sent to the last one received
};

// A link between processes, the same in both directions at once. A value.
class LinkTable {
 public:
  LinkTable() = default;  // on which messages take no time
  // Messages of `bytes` take latency + bytes / bandwidth: seconds, and bytes a second.
  static LinkTable Linear(double latency, double bandwidth);

  // The line through measurements, by least squares of the relative errors; a latency that came out negative is 0.
  // InvalidArgument: a value is not positive, all sizes are equal, or the time does not grow with the size.
  static absl::StatusOr<LinkTable> Fit(absl::Span<const LinkPoint> points);

  // Between two measurements, a straight line in logarithms. Smaller messages take as long as the smallest one, larger
  // ones go at the bandwidth of the largest. InvalidArgument: fewer than two measurements, a value that is not
  // positive, or sizes that do not ascend.
  static absl::StatusOr<LinkTable> Interpolate(std::vector<LinkPoint> points);

  // Interpolates lines of text of the form "bytes seconds"; '#' starts a comment. InvalidArgument names the line.
  static absl::StatusOr<LinkTable> Parse(absl::string_view text);

  // A link by name, 1gbe, 10gbe or ib100, or the file of that path, as Parse reads it. Errors name the path.
  static absl::StatusOr<LinkTable> Find(const std::string& name);

  // The time of a message. REQUIRES: bytes >= 0.
  double Seconds(double bytes) const;
  // The time of the smallest message.
  double latency() const { return Seconds(0); }

 private:
  double latency_ = 0, seconds_per_byte_ = 0;  // of a linear link
  std::vector<LinkPoint> points_;              // of an interpolated one; empty: it is linear
};

}  // namespace belfry
