// MPI among threads of one process, for tests of worlds.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/collective/mpi/mpi_api.h"

namespace belfry {

// The messages in transit between the ranks. Thread-safe.
class FakeNetwork {
 public:
  explicit FakeNetwork(int size) : size_(size), ended_(size), sent_(static_cast<size_t>(size) * size) {}
  int size() const { return size_; }
  // Makes probing for messages of this rank fail once all are received, as MPI libraries do that notice a lost process.
  void End(int rank);
  void Send(int from, int to, std::string message);
  // The length of the oldest message, if any; and the message, which there must be.
  absl::StatusOr<std::optional<size_t>> Probe(int from, int to);
  std::string Receive(int from, int to);

 private:
  size_t Index(int from, int to) const { return static_cast<size_t>(from) * size_ + to; }

  const int size_;
  Mutex mutex_;
  std::vector<bool> ended_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::deque<std::string>> sent_ ABSL_GUARDED_BY(mutex_);
};

struct FakeMpiOptions {
  int fail_at = -1;    // the call that fails, counted from 0 without probes that find nothing
  int slowness = 0;    // calls of Test for a transfer that return false
  bool mute = false;   // what it sends is lost
  bool hangs = false;  // MPI_Finalize does not return
};

// One rank. For one thread at a time.
class FakeMpi final : public MpiApi {
 public:
  FakeMpi(FakeNetwork& network, int rank, FakeMpiOptions options = {})
      : network_(network), rank_(rank), options_(options) {}
  std::string library() const override { return "Fake MPI 1.0"; }
  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  int local_rank() const override { return rank_; }
  absl::StatusOr<Request> Send(int to, absl::Span<const char> data) override;
  absl::StatusOr<std::optional<size_t>> Probe(int from) override;
  absl::StatusOr<Request> Receive(int from, absl::Span<char> data) override;
  absl::StatusOr<bool> Test(Request request) override;
  absl::Status Finalize() override;

 private:
  absl::Status Call(const char* name);

  FakeNetwork& network_;
  const int rank_;
  const FakeMpiOptions options_;
  int calls_ = 0;
  std::vector<int> tests_;  // by request
};

}  // namespace belfry
