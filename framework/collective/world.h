// Worlds: the processes of one run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/launcher.h"

namespace belfry {

// One process of a world.
struct WorldProcess {
  std::string host;
  int pid = 0;
  int local_rank = 0;  // among the processes of its machine, from 0
};

// "task 2 (node-b, pid 97)"; "task 2" while the process is not known.
std::string Describe(int rank, const WorldProcess& process);

// The processes of a run, numbered by rank from 0; a rank is the task number of the process's devices. All processes
// make the same calls in the same order. Not thread-safe.
//
// After an error a process must exit with a nonzero status, and without Close: the launcher then ends the
// others, which may wait for it. (MPICH's mpirun does not, if it ended before MPI_Init; they end at their deadlines.)
class World {
 public:
  virtual ~World() = default;
  // This process, and all of them, by rank.
  virtual int rank() const = 0;
  virtual const std::vector<WorldProcess>& processes() const = 0;
  int size() const { return static_cast<int>(processes().size()); }
  // The MPI library that connects them: "Open MPI 4.1.4"; "" for a single process.
  virtual std::string library() const = 0;
  // Sends `mine` to all processes, and returns the messages of all, by rank. Errors: DeadlineExceeded names the
  // processes that sent nothing; those of the library. After an error nothing more can be exchanged.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view mine, absl::Time deadline) = 0;
  // Waits until all processes have called it, and disconnects this one. Errors: as above.
  virtual absl::Status Close(absl::Time deadline) = 0;
};

// Opens the world that `launch` describes: this process alone, or the processes that the launcher started, connected by
// the launcher's MPI library. MPI can be opened once in a process. Errors: NotFound if this Belfry was built without
// that library; FailedPrecondition if the library knows of another number of processes than the launcher, or the
// processes run different builds of Belfry; DeadlineExceeded names processes that do not answer. MPI itself waits
// without a limit when it starts and ends: if that takes longer than until the deadline, because a process was not
// started, is stopped or has ended, this process prints the reason and ends with status 1.
absl::StatusOr<std::unique_ptr<World>> OpenWorld(const Launch& launch, absl::Time deadline);

}  // namespace belfry
