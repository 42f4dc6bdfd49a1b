#include "tests/framework/collective/fake_mpi.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"

namespace belfry {

void FakeNetwork::Send(int from, int to, std::string message) {
  const MutexLock lock(mutex_);
  sent_[Index(from, to)].push_back(std::move(message));
}

void FakeNetwork::End(int rank) {
  const MutexLock lock(mutex_);
  ended_[rank] = true;
}

absl::StatusOr<std::optional<size_t>> FakeNetwork::Probe(int from, int to) {
  const MutexLock lock(mutex_);
  const std::deque<std::string>& messages = sent_[Index(from, to)];
  if (!messages.empty()) return messages.front().size();
  if (ended_[from]) return absl::InternalError(absl::StrCat("MPI_Iprobe failed: process ", from, " has ended"));
  return std::nullopt;
}

std::string FakeNetwork::Receive(int from, int to) {
  const MutexLock lock(mutex_);
  std::deque<std::string>& messages = sent_[Index(from, to)];
  std::string message = std::move(messages.front());
  messages.pop_front();
  return message;
}

absl::Status FakeMpi::Call(const char* name) {
  if (calls_++ != options_.fail_at) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, " failed: injected"));
}

absl::StatusOr<MpiApi::Request> FakeMpi::Send(int to, absl::Span<const char> data) {
  RETURN_IF_ERROR(Call("MPI_Isend"));
  if (!options_.mute) network_.Send(rank_, to, std::string(data.begin(), data.end()));
  tests_.push_back(0);
  return static_cast<Request>(tests_.size()) - 1;
}

absl::StatusOr<std::optional<size_t>> FakeMpi::Probe(int from) {
  ASSIGN_OR_RETURN(const std::optional<size_t> bytes, network_.Probe(from, rank_));
  if (bytes.has_value()) RETURN_IF_ERROR(Call("MPI_Iprobe"));
  return bytes;
}

absl::StatusOr<MpiApi::Request> FakeMpi::Receive(int from, absl::Span<char> data) {
  RETURN_IF_ERROR(Call("MPI_Irecv"));
  const std::string message = network_.Receive(from, rank_);
  std::copy(message.begin(), message.end(), data.begin());
  tests_.push_back(0);
  return static_cast<Request>(tests_.size()) - 1;
}

absl::Status FakeMpi::Finalize() {
  while (options_.hangs) absl::SleepFor(absl::Seconds(1));
  return Call("MPI_Finalize");
}

absl::StatusOr<bool> FakeMpi::Test(Request request) {
  RETURN_IF_ERROR(Call("MPI_Test"));
  return tests_[request]++ >= options_.slowness;
}

}  // namespace belfry
