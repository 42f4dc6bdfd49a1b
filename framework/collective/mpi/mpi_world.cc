#include "framework/collective/mpi/mpi_world.h"

#include <sched.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "framework/base/host_name.h"
#include "framework/base/status.h"
#include "framework/collective/mpi/watchdog.h"

namespace belfry {
namespace {

// A wait yields its core, and naps once it is long: a blocking call of MPI would keep the core busy, and could not be
// left at a deadline.
class Waiter {
 public:
  explicit Waiter(absl::Time deadline) : deadline_(deadline), begin_(absl::Now()) {}
  // False once the deadline has passed.
  bool Wait() {
    const absl::Time now = absl::Now();
    if (now >= deadline_) return false;
    if (now - begin_ < absl::Milliseconds(1)) {
      sched_yield();
    } else {
      absl::SleepFor(absl::Microseconds(100));
    }
    return true;
  }

 private:
  const absl::Time deadline_, begin_;
};

// Invariant: the n-th message that a process sends to another is of its n-th AllGather, because MPI keeps the order of
// the messages between two processes on one communicator and every process makes the same calls. So a message needs no
// number, and one that arrives early stays with MPI until the AllGather that it belongs to. The cost is size - 1
// messages each way for each process, which suits exchanges that are rare, not those of every step.
class MpiWorld final : public World {
 public:
  explicit MpiWorld(std::unique_ptr<MpiApi> mpi) : mpi_(std::move(mpi)), processes_(mpi_->size()) {}
  int rank() const override { return mpi_->rank(); }
  const std::vector<WorldProcess>& processes() const override { return processes_; }
  std::string library() const override { return mpi_->library(); }

  absl::Status Connect(const Launch& launch, absl::string_view build, absl::Time deadline);

  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view mine, absl::Time deadline) override {
    if (abandoned_ != nullptr)
      return absl::FailedPreconditionError("an earlier exchange with the other processes failed");
    auto owned = std::make_unique<Exchange>();
    Exchange& exchange = *owned;
    exchange.sent = std::string(mine);
    exchange.received.resize(size());
    exchange.received[rank()] = std::string(mine);
    const absl::Status status = Run(exchange, deadline);
    if (status.ok()) return std::move(exchange.received);
    abandoned_ = std::move(owned);
    return status;
  }

  absl::Status Close(absl::Time deadline) override {
    RETURN_IF_ERROR(AllGather("", deadline).status());
    const Watchdog watchdog(deadline, "MPI_Finalize did not return in time: another process is stopped, or has ended");
    return mpi_->Finalize();
  }

 private:
  struct Exchange {
    std::string sent;
    std::vector<std::string> received;
  };

  absl::Status Run(Exchange& exchange, absl::Time deadline) {
    enum class State { kAwaited, kArriving, kDone };
    std::vector<State> states(size(), State::kAwaited);
    std::vector<MpiApi::Request> arriving(size()), leaving;
    states[rank()] = State::kDone;
    int missing = size() - 1;
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      ASSIGN_OR_RETURN(const MpiApi::Request request, mpi_->Send(r, exchange.sent));
      leaving.push_back(request);
    }
    for (Waiter waiter(deadline); missing > 0 || !leaving.empty();) {
      bool moved = false;
      for (int r = 0; r < size(); ++r) {
        if (states[r] == State::kAwaited) {
          ASSIGN_OR_RETURN(const std::optional<size_t> bytes, mpi_->Probe(r));
          if (!bytes.has_value()) continue;
          exchange.received[r].resize(*bytes);
          ASSIGN_OR_RETURN(arriving[r], mpi_->Receive(r, absl::MakeSpan(exchange.received[r])));
          states[r] = State::kArriving;
          moved = true;
        }
        if (states[r] == State::kArriving) {
          ASSIGN_OR_RETURN(const bool done, mpi_->Test(arriving[r]));
          if (!done) continue;
          states[r] = State::kDone;
          --missing;
          moved = true;
        }
      }
      if (!leaving.empty()) {
        ASSIGN_OR_RETURN(const bool done, mpi_->Test(leaving.back()));
        if (done) leaving.pop_back();
        moved = moved || done;
      }
      if (moved || waiter.Wait()) continue;
      std::vector<std::string> silent;
      for (int r = 0; r < size(); ++r) {
        if (states[r] != State::kDone) silent.push_back(Describe(r, processes_[r]));
      }
      return absl::DeadlineExceededError(
          silent.empty() ? "the other processes did not take what was sent to them before the deadline"
                         : absl::StrCat("no answer before the deadline from ", absl::StrJoin(silent, ", "),
                                        ": stopped, dead, cut off, or not started"));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<MpiApi> mpi_;
  std::vector<WorldProcess> processes_;
  std::unique_ptr<Exchange> abandoned_;  // the one that failed: MPI may still be reading and writing it
};

absl::Status MpiWorld::Connect(const Launch& launch, absl::string_view build, absl::Time deadline) {
  if (size() != launch.processes) {
    return absl::FailedPreconditionError(
        absl::StrCat(library(), " knows of ", size(), size() == 1 ? " process" : " processes",
                     ", but the launcher started ", launch.processes, " according to ", launch.launcher,
                     "; use the mpirun of the same library, or srun --mpi=pmix"));
  }
  const auto texts = AllGather(
      absl::StrJoin({std::string(build), HostName(), absl::StrCat(getpid()), absl::StrCat(mpi_->local_rank())}, "\n"),
      deadline);
  if (!texts.ok()) {
    return absl::Status(texts.status().code(), absl::StrCat("Cannot connect the processes started by ", launch.launcher,
                                                            ": ", texts.status().message()));
  }
  for (int r = 0; r < size(); ++r) {
    const std::vector<std::string> fields = absl::StrSplit((*texts)[r], '\n');
    WorldProcess& process = processes_[r];
    if (fields.size() != 4 || !absl::SimpleAtoi(fields[2], &process.pid) ||
        !absl::SimpleAtoi(fields[3], &process.local_rank)) {
      return absl::FailedPreconditionError(
          absl::StrCat("task ", r, " sent something else than its host and process number; it may run another build"));
    }
    process.host = fields[1];
    if (fields[0] != build) {
      return absl::FailedPreconditionError(
          absl::StrCat("the processes run different builds: ", Describe(rank(), processes_[rank()]), " is Belfry ",
                       build, ", but ", Describe(r, process), " is Belfry ", fields[0]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<World>> OpenMpiWorld(std::unique_ptr<MpiApi> mpi, const Launch& launch,
                                                    absl::string_view build, absl::Time deadline) {
  auto world = std::make_unique<MpiWorld>(std::move(mpi));
  RETURN_IF_ERROR(world->Connect(launch, build, deadline));
  return world;
}

}  // namespace belfry
