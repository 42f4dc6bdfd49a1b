#include "framework/collective/world.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "framework/base/host_name.h"
#include "framework/base/module.h"
#include "framework/base/status.h"
#include "framework/base/version.h"
#include "framework/collective/mpi/mpi_world.h"
#include "framework/collective/mpi/watchdog.h"

namespace belfry {
namespace {

class Alone final : public World {
 public:
  int rank() const override { return 0; }
  const std::vector<WorldProcess>& processes() const override { return processes_; }
  std::string library() const override { return ""; }
  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view mine, absl::Time) override {
    return std::vector<std::string>{std::string(mine)};
  }
  absl::Status Close(absl::Time) override { return absl::OkStatus(); }

 private:
  const std::vector<WorldProcess> processes_ = {{HostName(), getpid(), 0}};
};

}  // namespace

std::string Describe(int rank, const WorldProcess& process) {
  if (process.host.empty()) return absl::StrCat("task ", rank);
  return absl::StrCat("task ", rank, " (", process.host, ", pid ", process.pid, ")");
}

absl::StatusOr<std::unique_ptr<World>> OpenWorld(const Launch& launch, absl::Time deadline) {
  if (launch.processes == 1) return std::make_unique<Alone>();
  if (launch.mpi.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("This is one of ", launch.processes, " processes started by ", launch.launcher,
                     ", which gave them no way to find each other; use srun --mpi=pmix, or mpirun"));
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
    const Watchdog watchdog(
        deadline, absl::StrCat("MPI did not connect the ", launch.processes, " processes started by ", launch.launcher,
                               " in time: one of them was not started, is stopped, or has ended"));
    mpi = table->open();
  }
  if (!mpi.ok()) return mpi.status();
  return OpenMpiWorld(*std::move(mpi), launch, kBuild, deadline);
}

}  // namespace belfry
