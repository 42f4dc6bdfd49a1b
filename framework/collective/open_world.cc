#include "framework/collective/open_world.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/module.h"
#include "framework/base/status.h"
#include "framework/base/version.h"
#include "framework/collective/mpi/mpi_world.h"
#include "framework/collective/mpi/watchdog.h"

namespace belfry {
namespace {

constexpr absl::Duration kNoticeAfter = absl::Seconds(20);  // of a wait for MPI's start

}  // namespace

absl::StatusOr<std::unique_ptr<World>> OpenWorld(const Launch& launch, absl::Time deadline) {
  if (launch.processes == 1) return World::Alone();
  if (launch.mpi.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("This is one of ", launch.processes, " processes started by ", launch.launcher,
                     ", which gave them no way to find each other; use srun --mpi=pmix (Open MPI) or "
                     "--mpi=pmi2 (MPICH), or mpirun"));
  }
  const absl::StatusOr<Module> module = Module::Load(absl::StrCat("mpi_", launch.mpi));
  if (!module.ok()) {
    return absl::Status(module.status().code(),
                        absl::StrCat("This is one of ", launch.processes, " processes started by ", launch.launcher,
                                     ", and cannot reach the others: ", module.status().message()));
  }
  const auto* const table = module->Find<MpiModule>("collective");
  if (table == nullptr) return absl::InternalError("the MPI module has no part \"collective\"");
  absl::StatusOr<std::unique_ptr<MpiApi>> mpi;
  {
    const std::string processes = absl::StrCat("the ", launch.processes, " processes started by ", launch.launcher);
    constexpr absl::string_view kReasons = "one of them was not started, is stopped, or has ended";
    ASSIGN_OR_RETURN(
        const auto watchdog,
        Watchdog::Start(
            deadline, absl::StrCat("Error: DEADLINE_EXCEEDED: MPI did not connect ", processes, " in time: ", kReasons),
            1,
            absl::StrCat("Still waiting for MPI to connect ", processes, ", after ", absl::FormatDuration(kNoticeAfter),
                         ": perhaps ", kReasons),
            kNoticeAfter));
    mpi = table->open();
  }
  if (!mpi.ok()) return mpi.status();
  return OpenMpiWorld(*std::move(mpi), launch, kBuild, deadline);
}

}  // namespace belfry
