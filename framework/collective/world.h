// Worlds: the processes of one run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/collective/transfers.h"

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
// make the same calls in the same order, except where stated.
//
// After an error a process must call Fail and exit with a nonzero status, without Close: the launcher then ends the
// others, which may wait for it. Deadlines are moments of SteadyNow. (MPICH's mpirun does not if the process ended
// before MPI_Init; the others then end at their deadlines.)
class World {
 public:
  virtual ~World() = default;
  // This process, and all of them, by rank. Thread-safe.
  virtual int rank() const = 0;
  virtual const std::vector<WorldProcess>& processes() const = 0;
  int size() const { return static_cast<int>(processes().size()); }
  // Whether the processes are on different machines, so that a network lies between some of them. Thread-safe.
  bool several_machines() const;
  // The MPI library that connects them: "Open MPI 4.1.4"; "" for a single process.
  virtual std::string library() const = 0;

  // A number for exchanges that may run at the same time as others. Thread-safe.
  virtual int NewTag() = 0;
  // Sends and receives all of `transfers`; returns when their memory may be used again. Does not allocate, except
  // at the first exchange of transfers that have to be cut, nor use the processor beside other threads that need it.
  // Exchanges with different tags may run at the same time, in any order. Errors: DeadlineExceeded names the processes
  // from which something is missing; Cancelled if `cancelled` returns true, or with the error of a process that called
  // Fail; those of the library. After an error nothing more can be exchanged with any tag, and MPI no longer uses the
  // memory of `transfers`. Thread-safe.
  virtual absl::Status Exchange(int tag, Transfers& transfers, absl::Time deadline,
                                const std::function<bool()>& cancelled) = 0;
  // The time that this process has spent in exchanges. The process that all others wait for has the least. Thread-safe.
  virtual absl::Duration waited() const = 0;
  // Sends `mine` to all processes, and returns the messages of all, by rank. Errors: those of Exchange. Not
  // thread-safe. `directly`: not through a tree of processes, in which an error may name one that waits in turn.
  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view mine, absl::Time deadline,
                                                     bool directly = false);
  // Returns task 0's `mine` in all processes. Errors: likewise. Not thread-safe.
  absl::StatusOr<std::string> Broadcast(absl::string_view mine, absl::Time deadline);

  // Says where this process is, for RollCall: "CPU:0 has been running tower_1/conv2". Called on a thread of the world's
  // own. Null: nothing to say.
  virtual void SetPosition(std::function<std::string()> position) = 0;
  // OK, or the error after which nothing can be exchanged: from a process that called Fail, or from an exchange. For
  // code that waits for other processes in another way. Thread-safe; costs an atomic load.
  virtual absl::Status Stopped() = 0;
  // Where each process is, one line each, and for which other one it waits. A process that does not answer within a
  // second is stopped, dead or cut off, and its line says so. Such lines come first, then processes that wait
  // for no other. If another process has told an error, that follows. For the error of a process that waits in vain.
  // Thread-safe.
  virtual std::string RollCall() = 0;
  // Tells all processes that this one ends with `status`, unless one of them said so before. Any process may call it at
  // any time. Thread-safe.
  virtual void Fail(const absl::Status& status) = 0;
  // Waits until all processes have called it, and disconnects this one. MPI may hang at its end although all have
  // (MPICH 4.0.2 between machines): this process is then ended, after a warning, with `exit_status`. Errors: those of
  // Exchange.
  virtual absl::Status Close(absl::Time deadline, int exit_status = 0) = 0;

  // A world of this process alone.
  static std::unique_ptr<World> Alone();

 private:
  // Fills `all`, in which the block of process r begins at begins[r], from each process's own block.
  absl::Status AllGatherBlocks(absl::Span<char> all, absl::Span<const uint64_t> begins, absl::Time deadline,
                               bool directly);
};

}  // namespace belfry
