// MPI among threads of one process, for tests of worlds.
#pragma once

#include <deque>
#include <map>
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
  explicit FakeNetwork(int size) : size_(size), ended_(size) {}
  int size() const { return size_; }
  // Makes receiving from this rank fail once all its messages are received, as MPI libraries do that notice a lost
  // process.
  void End(int rank);
  void Send(int from, int to, int tag, std::string message);
  // Takes the oldest message if there is one. Errors: Internal if its size is not that of `data`.
  absl::StatusOr<bool> Take(int from, int to, int tag, absl::Span<char> data);

 private:
  const int size_;
  Mutex mutex_;
  std::vector<bool> ended_ ABSL_GUARDED_BY(mutex_);
  std::map<std::tuple<int, int, int>, std::deque<std::string>> sent_ ABSL_GUARDED_BY(mutex_);  // by from, to, tag
};

struct FakeMpiOptions {
  int fail_at = -1;                  // the call that fails, counted from 0 without tests that find nothing
  int slowness = 0;                  // calls of Test for a transfer that return false
  bool mute = false;                 // what it sends is lost
  bool halfway = false;              // messages of more than 1 MiB never arrive, and Cancel comes too late for them
  bool hangs = false;                // MPI_Finalize does not return
  size_t longest = size_t{1} << 30;  // message, in bytes
};

// One rank. One call at a time.
class FakeMpi final : public MpiApi {
 public:
  FakeMpi(FakeNetwork& network, int rank, FakeMpiOptions options = {})
      : network_(network), rank_(rank), options_(options) {}
  std::string library() const override { return "Fake MPI 1.0"; }
  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  int local_rank() const override { return rank_; }
  size_t longest() const override { return options_.longest; }
  absl::StatusOr<Request> Send(int to, int tag, absl::Span<const char> data) override;
  absl::StatusOr<Request> Receive(int from, int tag, absl::Span<char> data) override;
  absl::StatusOr<bool> Test(Request request) override;
  absl::Status Cancel(Request request) override;
  absl::Status Finalize() override;

 private:
  struct Transfer {
    int from = -1;  // of a receive
    int tag = 0;
    absl::Span<char> data;
    int tests = 0;
    bool dropped = false;
  };
  absl::Status Call(const char* name);
  absl::Status CheckSize(size_t bytes) const;
  bool Stuck(const Transfer& transfer) const { return options_.halfway && transfer.data.size() > 1 << 20; }

  FakeNetwork& network_;
  const int rank_;
  const FakeMpiOptions options_;
  int calls_ = 0;
  std::vector<Transfer> transfers_;  // by request
  std::map<std::pair<int, int>, std::deque<Request>>
      posted_;  // receives by from and tag, which messages match in order
};

}  // namespace belfry
