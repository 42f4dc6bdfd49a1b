// The link between the processes of a world, measured.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "trainers/prediction/predict.h"

namespace belfry {

// Messages of ascending sizes, in both directions at once; the three tables have the same sizes.
struct MeasuredLink {
  std::vector<LinkPoint> alone;      // while no thread computes
  std::vector<LinkPoint> beside;     // beside threads that compute
  std::vector<LinkPoint> processor;  // seconds of computing that these threads lose to a message, all together
  double sum = 0;                    // Exchange::sum
};

// Measures messages of 4 bytes to 4 MiB between task 0 and the first task of another machine, or task 1 if there is
// none: the medians of several exchanges of each size, by a thread as the one that averages, alone and beside
// `computing` threads on the cores of the calling one. All processes must call it, and all get the measurements. Takes
// a fraction of a second on a fast link, 3 seconds at 0.4 Gbit/s. Errors: FailedPrecondition in a world of one process;
// those of World::Exchange.
absl::StatusOr<MeasuredLink> MeasureLink(World& world, int computing, absl::Time deadline);

// Sets the link of `exchange`, and what it takes from computing. Errors: those of LinkTable::Interpolate.
absl::Status SetLink(const MeasuredLink& measured, Exchange& exchange);

}  // namespace belfry
