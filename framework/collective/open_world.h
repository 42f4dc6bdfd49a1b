// The world that a launcher started this process in.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/launcher.h"
#include "framework/collective/world.h"

namespace belfry {

// Opens the world that `launch` describes: this process alone, or the processes that the launcher started, connected by
// the launcher's MPI library. MPI can be opened once in a process. Errors: NotFound if this Belfry was built without
// that library; FailedPrecondition if the library knows of another number of processes than the launcher, or the
// processes run different builds of Belfry; DeadlineExceeded names processes that do not answer. MPI itself waits
// without a limit when it starts and ends: if that takes longer than until the deadline, because a process was not
// started, is stopped or has ended, this process prints the reason and ends with status 1.
absl::StatusOr<std::unique_ptr<World>> OpenWorld(const Launch& launch, absl::Time deadline);

}  // namespace belfry
