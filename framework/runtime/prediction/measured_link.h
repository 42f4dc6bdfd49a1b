// The link between the processes of a world, measured.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/collective/world.h"
#include "framework/runtime/prediction/link_table.h"

namespace belfry {

// Times messages of 4 bytes to 4 MiB, in both directions at once, between task 0 and the first task of another machine,
// or task 1 if there is none: the median of several exchanges of each size. All processes must call it, and all get the
// measurements, for LinkTable::Interpolate. Takes a fraction of a second. Errors: FailedPrecondition in a world of one
// process; those of World::Exchange.
absl::StatusOr<std::vector<LinkPoint>> MeasureLink(World& world, absl::Time deadline);

}  // namespace belfry
