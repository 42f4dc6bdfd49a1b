#include "tests/framework/collective/fake_mpi.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"

namespace belfry {

void FakeNetwork::Send(int from, int to, int tag, std::string message) {
  const MutexLock lock(mutex_);
  sent_[{from, to, tag}].push_back(std::move(message));
}

void FakeNetwork::End(int rank) {
  const MutexLock lock(mutex_);
  ended_[rank] = true;
}

absl::StatusOr<bool> FakeNetwork::Take(int from, int to, int tag, absl::Span<char> data) {
  const MutexLock lock(mutex_);
  std::deque<std::string>& messages = sent_[{from, to, tag}];
  if (messages.empty()) {
    if (ended_[from]) return absl::InternalError(absl::StrCat("MPI_Test failed: process ", from, " has ended"));
    return false;
  }
  if (messages.front().size() != data.size()) {
    return absl::InternalError(absl::StrCat("MPI_Test failed: a message of ", messages.front().size(), " bytes where ",
                                            data.size(), " were expected"));
  }
  std::copy(messages.front().begin(), messages.front().end(), data.begin());
  messages.pop_front();
  return true;
}

absl::Status FakeMpi::Call(const char* name) {
  if (calls_++ != options_.fail_at) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, " failed: injected"));
}

absl::Status FakeMpi::CheckSize(size_t bytes) const {
  if (bytes <= options_.longest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a message of ", bytes, " bytes"));
}

absl::StatusOr<MpiApi::Request> FakeMpi::Send(int to, int tag, absl::Span<const char> data) {
  RETURN_IF_ERROR(CheckSize(data.size()));
  RETURN_IF_ERROR(Call("MPI_Isend"));
  if (!options_.mute) network_.Send(rank_, to, tag, std::string(data.begin(), data.end()));
  transfers_.push_back({});
  return static_cast<Request>(transfers_.size()) - 1;
}

absl::StatusOr<MpiApi::Request> FakeMpi::Receive(int from, int tag, absl::Span<char> data) {
  RETURN_IF_ERROR(CheckSize(data.size()));
  RETURN_IF_ERROR(Call("MPI_Irecv"));
  transfers_.push_back({.from = from, .tag = tag, .data = data});
  const auto request = static_cast<Request>(transfers_.size()) - 1;
  posted_[{from, tag}].push_back(request);
  return request;
}

absl::StatusOr<bool> FakeMpi::Test(Request request) {
  Transfer& transfer = transfers_[request];
  if (transfer.dropped) return true;
  if (Stuck(transfer) || transfer.tests++ < options_.slowness) return false;
  if (transfer.from >= 0) {
    std::deque<Request>& posted = posted_[{transfer.from, transfer.tag}];
    while (!posted.empty() && transfers_[posted.front()].dropped) posted.pop_front();
    if (posted.front() != request) return false;
    ASSIGN_OR_RETURN(const bool arrived, network_.Take(transfer.from, rank_, transfer.tag, transfer.data));
    if (!arrived) return false;
    posted.pop_front();
  }
  RETURN_IF_ERROR(Call("MPI_Test"));
  return true;
}

absl::Status FakeMpi::Cancel(Request request) {
  transfers_[request].dropped = !Stuck(transfers_[request]);
  return absl::OkStatus();
}

absl::Status FakeMpi::Finalize() {
  while (options_.hangs) absl::SleepFor(absl::Seconds(1));
  return Call("MPI_Finalize");
}

}  // namespace belfry
