// A World over MPI.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/collective/mpi/mpi_api.h"
#include "framework/collective/world.h"

namespace belfry {

// Connects the processes of `launch`, each of which calls it. `build` is the caller's (kBuild). Errors: as OpenWorld.
absl::StatusOr<std::unique_ptr<World>> OpenMpiWorld(std::unique_ptr<MpiApi> mpi, const Launch& launch,
                                                    absl::string_view build, absl::Time deadline);

}  // namespace belfry
