#include "framework/collective/mpi/mpi_watcher.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/thread.h"

namespace belfry {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100), kPatience = absl::Seconds(1);
// A poll tests a receive of each process, so the nap before the next one grows with the wait: to an eighth of it, and
// to no more than kInterval.
constexpr absl::Duration kShortestNap = absl::Milliseconds(1);
constexpr int64_t kNapsShare = 8;

}  // namespace

MpiWatcher::MpiWatcher(MpiApi& mpi, Mutex& mpi_mutex, std::function<void(const std::string&)> on_failure)
    : mpi_(mpi),
      mpi_mutex_(mpi_mutex),
      on_failure_(std::move(on_failure)),
      rank_(mpi.rank()),
      size_(mpi.size()),
      incoming_(mpi.size()),
      answers_(mpi.size()) {}

absl::StatusOr<std::unique_ptr<MpiWatcher>> MpiWatcher::Start(MpiApi& mpi, Mutex& mpi_mutex,
                                                              std::function<void(const std::string&)> on_failure) {
  std::unique_ptr<MpiWatcher> watcher(new MpiWatcher(mpi, mpi_mutex, std::move(on_failure)));
  ASSIGN_OR_RETURN(watcher->thread_,
                   StartThread("that watches the other processes", [w = watcher.get()] { w->Work(); }));
  const MutexLock lock(watcher->poll_mutex_);
  for (int r = 0; r < watcher->size_ && watcher->error_.ok(); ++r) {
    if (r != watcher->rank_) watcher->error_ = watcher->Post(r);
  }
  return watcher;
}

MpiWatcher::~MpiWatcher() { End(); }

void MpiWatcher::End() {
  {
    const MutexLock lock(mutex_);
    done_ = true;
    mutex_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void MpiWatcher::Work() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      const bool done =
          mutex_.AwaitUntil(SteadyNow() + kInterval, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_; });
      if (done) return;
    }
    Poll().IgnoreError();  // kept in error_; whoever exchanges data meets it as well
  }
}

absl::Status MpiWatcher::Post(int from) {
  const MutexLock lock(mpi_mutex_);
  ASSIGN_OR_RETURN(incoming_[from].request, mpi_.Receive(from, kTag, absl::MakeSpan(incoming_[from].note)));
  return absl::OkStatus();
}

absl::Status MpiWatcher::Poll() {
  const MutexLock lock(poll_mutex_);
  const auto poll = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_) -> absl::Status {
    const auto test = [this](MpiApi::Request request) -> absl::StatusOr<bool> {
      const MutexLock mpi(mpi_mutex_);
      return mpi_.Test(request);
    };
    for (int r = 0; r < size_; ++r) {
      if (incoming_[r].request < 0) continue;
      ASSIGN_OR_RETURN(const bool arrived, test(incoming_[r].request));
      if (!arrived) continue;
      incoming_[r].request = -1;
      if (left_) continue;  // a receive that was given up
      Take(r, incoming_[r].note);
      RETURN_IF_ERROR(Post(r));
    }
    for (Outgoing& outgoing : outgoing_) {
      ASSIGN_OR_RETURN(const bool sent, test(outgoing.request));
      if (sent) outgoing.note.reset();
    }
    std::erase_if(outgoing_, [](const Outgoing& outgoing) { return outgoing.note == nullptr; });
    return absl::OkStatus();
  };
  if (error_.ok()) error_ = poll();
  return error_;
}

std::shared_ptr<const MpiWatcher::Note> MpiWatcher::MakeNote(Kind kind, const std::string& text) {
  auto note = std::make_shared<Note>();
  note->fill(0);
  (*note)[0] = kind;
  text.copy(note->data() + 1, note->size() - 2);
  return note;
}

void MpiWatcher::Send(int to, std::shared_ptr<const Note> note) {
  if (!error_.ok()) return;
  const MutexLock lock(mpi_mutex_);
  const absl::StatusOr<MpiApi::Request> request = mpi_.Send(to, kTag, *note);
  if (!request.ok()) {
    error_ = request.status();
    return;
  }
  outgoing_.push_back({.note = std::move(note), .request = *request});
}

void MpiWatcher::Take(int from, const Note& note) {
  const std::string text(note.data() + 1, strnlen(note.data() + 1, note.size() - 1));
  switch (static_cast<Kind>(note[0])) {
    case kFailed: {
      {
        const MutexLock lock(mutex_);
        if (std::exchange(told_, true)) return;
      }
      on_failure_(text);
      return;
    }
    case kWhere: Send(from, MakeNote(kHere, Position())); return;
    case kHere: {
      const MutexLock lock(mutex_);
      answers_[from] = text;
      return;
    }
    case kLeave: incoming_[from].left = true; return;
  }
}

std::string MpiWatcher::Position() {
  const MutexLock lock(position_mutex_);
  const std::string position = position_ == nullptr ? "" : position_();
  return position.empty() ? "answers" : position;
}

void MpiWatcher::SetPosition(std::function<std::string()> position) {
  const MutexLock lock(position_mutex_);
  position_ = std::move(position);
}

bool MpiWatcher::PollUntil(absl::Time deadline, const std::function<bool()>& done) {
  for (const absl::Time begin = SteadyNow();;) {
    if (!Poll().ok()) return false;
    if (done()) return true;
    const absl::Time now = SteadyNow();
    if (now >= deadline) return false;
    const absl::Duration nap = std::min(std::max((now - begin) / kNapsShare, kShortestNap), kInterval);
    absl::SleepFor(std::min(nap, deadline - now));
  }
}

bool MpiWatcher::told() {
  const MutexLock lock(mutex_);
  return told_;
}

void MpiWatcher::Tell(const std::string& text) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(told_, true)) return;
  }
  {
    const auto note = MakeNote(kFailed, text);
    const MutexLock lock(poll_mutex_);
    for (int r = 0; r < size_; ++r) {
      if (Listens(r)) Send(r, note);
    }
  }
  PollUntil(SteadyNow() + kPatience, [this] {
    const MutexLock lock(poll_mutex_);
    return outgoing_.empty();
  });
}

std::vector<std::string> MpiWatcher::RollCall() {
  {
    const auto note = MakeNote(kWhere, "");
    const MutexLock poll(poll_mutex_);
    const MutexLock lock(mutex_);
    for (int r = 0; r < size_; ++r) {
      answers_[r] = Listens(r) ? "" : "has come to the end";
      if (Listens(r)) Send(r, note);
    }
  }
  const std::string own = Position();
  const auto all = [this] {
    const MutexLock lock(mutex_);
    int missing = 0;
    for (int r = 0; r < size_; ++r) missing += r != rank_ && answers_[r].empty();
    return missing == 0;
  };
  PollUntil(SteadyNow() + kPatience, all);
  const MutexLock lock(mutex_);
  std::vector<std::string> answers = answers_;
  answers[rank_] = own;
  return answers;
}

absl::Status MpiWatcher::GiveReceivesUp() {
  left_ = true;
  const MutexLock lock(mpi_mutex_);
  for (const Incoming& incoming : incoming_) {
    if (incoming.request >= 0) RETURN_IF_ERROR(mpi_.Cancel(incoming.request));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> MpiWatcher::Leave(absl::Time deadline) {
  {
    const auto note = MakeNote(kLeave, "");
    const MutexLock lock(poll_mutex_);
    leaving_ = true;
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) Send(r, note);
    }
  }
  std::vector<int> missing;
  const bool sent = PollUntil(deadline, [&] {
    const MutexLock lock(poll_mutex_);
    missing.clear();
    for (int r = 0; r < size_; ++r) {
      if (Listens(r)) missing.push_back(r);
    }
    return missing.empty() && outgoing_.empty();
  });
  {
    const MutexLock lock(poll_mutex_);
    RETURN_IF_ERROR(error_);
    if (!missing.empty()) return missing;
    if (!sent) return absl::DeadlineExceededError("MPI did not send all farewells before the deadline");
    RETURN_IF_ERROR(GiveReceivesUp());
  }
  const bool ended = PollUntil(deadline, [this] {
    const MutexLock lock(poll_mutex_);
    return std::all_of(incoming_.begin(), incoming_.end(), [](const Incoming& one) { return one.request < 0; });
  });
  const MutexLock lock(poll_mutex_);
  RETURN_IF_ERROR(error_);
  return ended ? absl::StatusOr<std::vector<int>>(missing)
               : absl::DeadlineExceededError("MPI did not give up receives of notes before the deadline");
}

}  // namespace belfry
