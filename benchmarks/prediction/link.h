// The link between processes: the times of messages over it, assumed or measured.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"

namespace belfry::benchmarks {

// The cost of a message, or of an average.
struct Cost {
  double seconds = 0;    // from the first byte sent to the last one received
  double beside = 0;     // the same if kernels run all the time; where it is shorter, `seconds` counts
  double processor = 0;  // seconds of `beside` that kernels go without, spread evenly
};

struct LinkPoint {
  double bytes = 0;
  Cost cost;  // of a message of that size, in both directions at once
};

// A value.
class Link {
 public:
  Link() = default;  // on which messages take no time
  // Between two points, a straight line in logarithms. Smaller messages cost as much as the smallest one, larger ones
  // go at the bandwidth of the largest. Adding up averages takes `sum` seconds a byte of one tower. REQUIRES: two
  // points or more of ascending sizes, whose values are positive.
  Link(std::vector<LinkPoint> points, double sum) : sum_(sum), points_(std::move(points)) {}
  // Messages take latency + bytes / bandwidth: seconds, and bytes a second.
  static Link Linear(double latency, double bandwidth);
  // A linear link by name, 1gbe, 10gbe or ib100. InvalidArgument: another name.
  static absl::StatusOr<Link> Find(absl::string_view name);

  Cost Message(double bytes) const;
  // The cost of averaging `bytes` of each of P processes, each of which adds up one slice and sends it to all, or
  // passes slices round a ring: 2 (P - 1) messages of bytes / P. If the processor needs longer for them, its time.
  Cost Average(double bytes, int64_t processes) const;
  const std::vector<LinkPoint>& points() const { return points_; }  // empty: the link is linear
  double sum() const { return sum_; }

 private:
  double latency_ = 0, seconds_per_byte_ = 0, sum_ = 0;
  std::vector<LinkPoint> points_;
};

// Measures messages of 4 bytes to 4 MiB between task 0 and the first task of another machine, or task 1 if there is
// none: the medians of several exchanges of each size, by a thread as the one that averages, alone and beside a thread
// that computes on the cores of the calling one. All processes must call it, and all get the same link. Takes a
// fraction of a second on a fast link, 3 seconds at 0.4 Gbit/s. Errors: FailedPrecondition in a world of one process;
// those of World::Exchange.
absl::StatusOr<Link> MeasureLink(World& world, absl::Time deadline);

}  // namespace belfry::benchmarks
