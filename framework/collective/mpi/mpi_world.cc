#include "framework/collective/mpi/mpi_world.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "framework/base/host_name.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/collective/mpi/watchdog.h"

namespace belfry {
namespace {

constexpr absl::Duration kFinalizeTime = absl::Seconds(10);
// Ample for what only awaits its turn: a message of gigabytes between two processes that both work.
constexpr absl::Duration kGiveUp = absl::Milliseconds(500);
// The longest wait that is not yet worth a warning, and the share of a wait after which one is.
constexpr absl::Duration kMinWarning = absl::Seconds(5);
constexpr int64_t kWarningsShare = 10;
// The most processes that an error names: it has to fit into a note of the watcher, with the most important lines of
// the roll call.
constexpr size_t kMostNames = 8;
constexpr absl::string_view kReasons = ": stopped, dead, cut off, or busy elsewhere";

// The processes of the transfers that are under way.
std::vector<int> UnderWay(const std::vector<Transfers::Transfer>& list) {
  std::vector<int> processes;
  for (const auto& transfer : list) {
    if (transfer.request >= 0) processes.push_back(transfer.process);
  }
  return processes;
}

// Marks what RollCall prints of a process that waits for another.
constexpr absl::string_view kWaiting = "waiting for task ";

// A position that says for which process it waits: on its first line, since a list of devices below may be cut off.
std::string WithAwaited(std::string position, int process) {
  const std::string wait = absl::StrCat(kWaiting, process);
  if (position.empty()) return wait;
  size_t end = std::min(position.find('\n'), position.size());
  if (end < position.size() && end > 0 && position[end - 1] == ':') --end;
  return position.insert(end, absl::StrCat(", ", wait));
}

// The process that a position says it waits for; -1: none.
int AwaitedAt(absl::string_view position) {
  const size_t at = position.find(kWaiting);
  if (at == absl::string_view::npos) return -1;
  position.remove_prefix(at + kWaiting.size());
  const size_t digits = std::min(position.find_first_not_of("0123456789"), position.size());
  int process = -1;
  return absl::SimpleAtoi(position.substr(0, digits), &process) ? process : -1;
}

// The processes from which something is missing; if none, those that have not taken what was sent to them.
std::vector<int> Awaited(const Transfers& transfers) {
  const std::vector<int> processes = UnderWay(transfers.receives);
  return processes.empty() ? UnderWay(transfers.sends) : processes;
}

// The first of them. Does not allocate.
int FirstAwaited(const Transfers& transfers) {
  for (const auto* const list : {&transfers.receives, &transfers.sends}) {
    for (const auto& transfer : *list) {
      if (transfer.request >= 0) return transfer.process;
    }
  }
  return -1;
}

// A wait tries again at once for a moment, and then naps, longer once it is long: a blocking call of MPI would keep the
// core busy, and could not be left at a deadline. MPI moves data only inside its calls, so longer naps at once would
// delay large messages. sched_yield would be worse: a thread that computes on the same core then has it for up to 4 ms,
// while a nap of a thread with short turns (UseShortTimeSlices) ends in time.
class Waiter {
 public:
  explicit Waiter(absl::Time deadline) : deadline_(deadline), begin_(SteadyNow()) {}
  // False once the deadline has passed.
  bool Wait() {
    const absl::Time now = SteadyNow();
    if (now >= deadline_) return false;
    const absl::Duration waited = now - begin_;
    if (waited < absl::Microseconds(20)) return true;
    absl::SleepFor(waited < absl::Milliseconds(2) ? absl::Microseconds(10) : absl::Microseconds(100));
    return true;
  }

 private:
  const absl::Time deadline_, begin_;
};

}  // namespace

absl::Status MpiWorld::Stopped() {
  if (!stopped_.load(std::memory_order_acquire)) return absl::OkStatus();
  const MutexLock lock(mutex_);
  return failure_;
}

void MpiWorld::Stop(const absl::Status& status) {
  const MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = status;
  stopped_.store(true, std::memory_order_release);
}

absl::Duration WarnAfter(absl::Duration usual, absl::Duration patience) {
  return std::min(usual, std::max(kMinWarning, patience / kWarningsShare));
}

absl::Status MpiWorld::Begin(int tag, Transfers& transfers) {
  const MutexLock lock(mpi_mutex_);
  if (left_mpi_) return absl::CancelledError("this process has left MPI");
  for (auto& receive : transfers.receives) {
    ASSIGN_OR_RETURN(receive.request, mpi_->Receive(receive.process, tag, {receive.data, receive.size}));
  }
  for (auto& send : transfers.sends) {
    ASSIGN_OR_RETURN(send.request, mpi_->Send(send.process, tag, {send.data, send.size}));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MpiWorld::Test(MpiApi::Request request) {
  const MutexLock lock(mpi_mutex_);
  if (left_mpi_) return absl::CancelledError("this process has left MPI");
  return mpi_->Test(request);
}

absl::StatusOr<bool> MpiWorld::Advance(std::vector<Transfers::Transfer>& list, size_t& left) {
  bool moved = false;
  for (auto& transfer : list) {
    if (transfer.request < 0) continue;
    const absl::StatusOr<bool> done = Test(transfer.request);
    if (!done.ok() || *done) transfer.request = -1;
    if (!done.ok()) return done.status();
    if (!*done) continue;
    --left;
    moved = true;
  }
  return moved;
}

absl::Status MpiWorld::Await(Transfers& transfers, absl::Time deadline, const std::function<bool()>& cancelled) {
  size_t receives = transfers.receives.size(), sends = transfers.sends.size();
  const absl::Duration warn_after = WarnAfter(warn_after_, deadline - SteadyNow());
  absl::Time warn = SteadyNow() + warn_after;
  for (Waiter waiter(deadline); receives > 0 || sends > 0;) {
    ASSIGN_OR_RETURN(const bool received, Advance(transfers.receives, receives));
    ASSIGN_OR_RETURN(const bool sent, Advance(transfers.sends, sends));
    if (received || sent) continue;
    awaited_.store(FirstAwaited(transfers), std::memory_order_relaxed);
    RETURN_IF_ERROR(Stopped());
    if (cancelled != nullptr && cancelled()) return absl::CancelledError("the exchange was cancelled");
    if (waiter.Wait()) {
      if (SteadyNow() >= warn) {
        Warn(transfers, warn_after);
        warn = absl::InfiniteFuture();
      }
      continue;
    }
    // Another process may have told by now why it does not answer.
    if (watcher_ != nullptr) watcher_->TakeNotes();
    RETURN_IF_ERROR(Stopped());
    return absl::DeadlineExceededError(absl::StrCat(receives == 0
                                                        ? "what was sent was not received before the deadline by "
                                                        : "no answer before the deadline from ",
                                                    Names(Awaited(transfers)), kReasons));
  }
  return absl::OkStatus();
}

// Once for an exchange, in one process: task 0, or task 1 if that waits for task 0. (Through a tree, in both.)
void MpiWorld::Warn(const Transfers& transfers, absl::Duration waited) {
  if (rank_ != (absl::c_linear_search(Awaited(transfers), 0) ? 1 : 0)) return;
  spdlog::warn("{} has been waiting for {} for {}; the tasks:\n{}", Describe(rank_, processes_[rank_]),
               Names(Awaited(transfers)), absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))), RollCall());
}

std::string MpiWorld::Names(std::vector<int> ranks) const {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const size_t named = std::min(ranks.size(), kMostNames);
  std::string text = absl::StrJoin(ranks.begin(), ranks.begin() + named, ", ", [this](std::string* out, int rank) {
    out->append(Describe(rank, processes_[rank]));
  });
  if (named < ranks.size()) absl::StrAppend(&text, " and ", ranks.size() - named, " more");
  return text;
}

bool MpiWorld::GiveUp(Transfers& transfers) {
  {
    const MutexLock lock(mpi_mutex_);
    for (auto& receive : transfers.receives) {
      if (receive.request >= 0 && !left_mpi_) mpi_->Cancel(receive.request).IgnoreError();
    }
  }
  for (const absl::Time end = SteadyNow() + kGiveUp;; absl::SleepFor(absl::Milliseconds(1))) {
    bool all = true;
    for (auto* const list : {&transfers.receives, &transfers.sends}) {
      for (auto& transfer : *list) {
        if (transfer.request < 0) continue;
        const absl::StatusOr<bool> done = Test(transfer.request);
        if (done.ok() && !*done) {
          all = false;
        } else {
          transfer.request = -1;
        }
      }
    }
    if (all) return true;
    if (SteadyNow() >= end) return false;
  }
}

void MpiWorld::LeaveMpi(const std::string& reason) {
  if (watcher_ != nullptr) {
    const std::string roll_call = RollCall();
    {
      const MutexLock lock(mutex_);
      last_roll_call_ = roll_call;
    }
    watcher_->Tell(absl::StrCat(Describe(rank(), processes_[rank()]), ": ", reason, "\nThe tasks:\n", roll_call));
    watcher_->End();
  }
  const MutexLock lock(mpi_mutex_);
  left_mpi_ = true;
}

absl::Status MpiWorld::Exchange(int tag, Transfers& transfers, absl::Time deadline,
                                const std::function<bool()>& cancelled) {
  RETURN_IF_ERROR(Stopped());
  transfers.Cut(longest_);
  const int64_t begin = absl::ToUnixNanos(SteadyNow());
  absl::Status status = Begin(tag, transfers);
  if (status.ok()) status = Await(transfers, deadline, cancelled);
  // Roll calls after a deadline say for which process this one waited in vain.
  if (!absl::IsDeadlineExceeded(status)) awaited_.store(-1, std::memory_order_relaxed);
  waited_.fetch_add(absl::ToUnixNanos(SteadyNow()) - begin, std::memory_order_relaxed);
  if (status.ok()) return status;
  Stop(status);
  if (GiveUp(transfers)) return status;
  // A process stands still in the middle of a message, and only calls of MPI would move the rest of it, if it goes on:
  // from or to memory that the caller frees. So they end here, and what is to be said is said before.
  std::vector<int> silent = UnderWay(transfers.receives);
  absl::c_copy(UnderWay(transfers.sends), std::back_inserter(silent));
  LeaveMpi(absl::IsCancelled(status) ? absl::StrCat("ended an exchange with ", Names(std::move(silent)),
                                                    " for an error of its own, which it prints")
                                     : std::string(status.message()));
  return status;
}

std::string MpiWorld::RollCall() {
  if (watcher_ == nullptr) return "";
  {
    const MutexLock lock(mutex_);
    if (!last_roll_call_.empty()) return last_roll_call_;
  }
  const std::vector<std::string> positions = watcher_->RollCall();
  std::string told;
  {
    const MutexLock lock(mutex_);
    told = told_;
  }
  // Those who are told of an error end, and no longer answer.
  const char* const missing = told.empty() ? "says nothing: stopped, dead, or cut off"
                                           : "does not answer; it may have ended after the error of another task";
  // Others are given only the beginning: those that say nothing, then the one that this one waits for, the one that
  // waits for, and so on.
  std::vector<int> order, chain, busy, waiting;
  std::vector<bool> in_chain(size());
  for (int r = AwaitedAt(positions[rank()]); r >= 0 && r < size() && !in_chain[r] && !positions[r].empty();
       r = AwaitedAt(positions[r])) {
    in_chain[r] = true;
    chain.push_back(r);
  }
  for (int r = 0; r < size(); ++r) {
    if (in_chain[r]) continue;
    (positions[r].empty() ? order : AwaitedAt(positions[r]) < 0 ? busy : waiting).push_back(r);
  }
  for (const std::vector<int>& part : {chain, busy, waiting}) order.insert(order.end(), part.begin(), part.end());
  std::vector<std::string> lines;
  for (const int r : order) {
    lines.push_back(
        absl::StrCat("  ", Describe(r, processes_[r]), "  ", positions[r].empty() ? missing : positions[r]));
  }
  if (!told.empty()) lines.push_back(absl::StrCat("The first error was in ", told));
  return absl::StrJoin(lines, "\n");
}

void MpiWorld::SetPosition(std::function<std::string()> position) {
  if (watcher_ == nullptr) return;
  watcher_->SetPosition([this, position = std::move(position)] {
    std::string text = position == nullptr ? "" : position();
    const int awaited = awaited_.load(std::memory_order_relaxed);
    return awaited < 0 ? text : WithAwaited(std::move(text), awaited);
  });
}

void MpiWorld::Fail(const absl::Status& status) {
  // Another process that failed has told all.
  if (watcher_ == nullptr || watcher_->told()) return;
  const std::string text = absl::StrCat(Describe(rank(), processes_[rank()]), ": ", status.message());
  Stop(absl::CancelledError(text));
  watcher_->Tell(text);
}

absl::Status MpiWorld::Close(absl::Time deadline, int exit_status) {
  RETURN_IF_ERROR(AllGather("", deadline).status());
  if (watcher_ != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<int> missing, watcher_->Leave(deadline));
    if (!missing.empty()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no farewell before the deadline from ", Names(missing), kReasons));
    }
  }
  // All have said farewell, so nothing is lost if MPI cannot end.
  std::fflush(nullptr);
  // Without a thread for it, MPI_Finalize has no limit.
  const auto watchdog = Watchdog::Start(
      std::min(deadline, SteadyNow() + kFinalizeTime),
      absl::StrCat("Warning: MPI_Finalize of ", library_, " did not return; all processes had done their work"),
      exit_status);
  const MutexLock lock(mpi_mutex_);
  return mpi_->Finalize();
}

absl::Status MpiWorld::Connect(const Launch& launch, absl::string_view build, absl::Time deadline) {
  if (size() != launch.processes) {
    return absl::FailedPreconditionError(
        absl::StrCat(library(), " knows of ", size(), size() == 1 ? " process" : " processes",
                     ", but the launcher started ", launch.processes, " according to ", launch.launcher,
                     "; use the mpirun of the same library, or srun --mpi=pmix (Open MPI) or "
                     "--mpi=pmi2 (MPICH)"));
  }
  // Directly, since nobody can call the roll yet.
  const auto texts = AllGather(
      absl::StrJoin({std::string(build), HostName(), absl::StrCat(getpid()), absl::StrCat(local_rank_)}, "\n"),
      deadline, /*directly=*/true);
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
  ASSIGN_OR_RETURN(watcher_, MpiWatcher::Start(*mpi_, mpi_mutex_, [this](const std::string& text) {
                     {
                       const MutexLock lock(mutex_);
                       told_ = text;
                     }
                     Stop(absl::CancelledError(text));
                   }));
  SetPosition(nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<World>> OpenMpiWorld(std::unique_ptr<MpiApi> mpi, const Launch& launch,
                                                    absl::string_view build, absl::Time deadline,
                                                    absl::Duration warn_after) {
  auto world = std::make_unique<MpiWorld>(std::move(mpi), warn_after);
  RETURN_IF_ERROR(world->Connect(launch, build, deadline));
  return world;
}

}  // namespace belfry
