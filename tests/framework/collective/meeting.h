// A collective with its devices, ranks and threads, for tests.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/collective/collective.h"
#include "framework/device/device_set.h"
#include "tests/main/testing.h"

namespace belfry {

// One way to average. A new one needs an element in CollectiveBackends(), and no new test.
struct CollectiveBackend {
  std::string name;
  // Opens devices that carry the given number of towers, one each.
  std::function<absl::StatusOr<DeviceSet>(int)> open;
  std::function<absl::StatusOr<std::unique_ptr<Collective>>(CollectiveSpec)> make;
  bool one_rank_each = false;  // supports only one rank per device
  // Pairs of (test, reason) for tests that it cannot pass; they are skipped with the reason.
  std::vector<std::pair<std::string, std::string>> cannot;
};
inline void PrintTo(const CollectiveBackend& backend, std::ostream* out) { *out << backend.name; }

std::vector<CollectiveBackend> CollectiveBackends();

inline absl::StatusOr<DeviceSet> OpenCpus(int count) {
  return DeviceSet::Open(absl::StrCat("cpu:", count), {.cpu_threads = 1});
}

// The averager on CPUs, with which all others are compared.
inline CollectiveBackend CpuBackend() {
  return {.name = "Cpu", .open = OpenCpus, .make = MakeLocalCollective, .cannot = {}};
}

MATCHER(IsOk, "") { return arg.ok(); }
MATCHER_P(HasCode, code, "") { return arg.code() == code; }

inline const absl::Time kNever = absl::InfiniteFuture();

struct MeetingSpec {
  CollectiveKind kind = CollectiveKind::kMean;
  int participants = 2;
  int ranks = 2;
  int64_t elements = 1;
};

// `ranks` ranks with elements of type T, dealt to the participants in turn (rank r belongs to participant r %
// participants), with host copies of their data and weights.
template <class T>
class Meeting {
 public:
  Meeting(const CollectiveBackend& backend, const MeetingSpec& spec) : spec_(spec) {
    if (backend.one_rank_each) spec_.participants = spec.ranks;
    devices_ = ValueOf(backend.open(spec_.participants));
    towers_ = devices_.TowerDevices();
    weights.assign(spec_.ranks, 1.0f);
    CollectiveSpec collective{.kind = spec.kind, .name = "test", .dtype = kDTypeOf<T>, .elements = spec.elements};
    for (int tower : towers_) collective.participants.push_back(&devices_.device(tower));
    for (int r = 0; r < spec.ranks; ++r) {
      data.emplace_back(spec.elements);
      auto memory = DeviceMemory::Allocate(DeviceOf(r), spec.elements * sizeof(T));
      EXPECT_TRUE(memory.ok()) << memory.status();
      memory_.push_back(*std::move(memory));
      memory = DeviceMemory::Allocate(DeviceOf(r), sizeof(float));
      EXPECT_TRUE(memory.ok()) << memory.status();
      weight_memory_.push_back(*std::move(memory));
      collective.ranks.push_back(
          {r % spec_.participants, memory_.back().data(), static_cast<const float*>(weight_memory_.back().data())});
    }
    for (int tower : towers_) {
      streams_.push_back(ValueOf(devices_.device(tower).NewStream(StreamKind::kCollective)));
    }
    this->collective = ValueOf(backend.make(std::move(collective)));
  }

  // Random values, small integers if `exact`, so that sums are exact.
  void Fill(bool exact, std::mt19937& random) {
    std::uniform_int_distribution<int> integer(-8, 8);
    std::normal_distribution<float> real;
    for (auto& values : data) {
      for (T& value : values) value = static_cast<T>(exact ? static_cast<float>(integer(random)) : real(random));
    }
  }

  // Runs every participant on its own thread on `data`, except those for which `absent` is true. Returns the statuses
  // by participant.
  std::vector<absl::Status> Run(uint32_t run, absl::Time deadline = kNever,
                                const std::function<bool(int)>& absent = nullptr) {
    Move(true);
    std::vector<absl::Status> statuses(spec_.participants);
    std::vector<std::thread> threads;
    for (int p = 0; p < spec_.participants; ++p) {
      if (absent && absent(p)) continue;
      threads.emplace_back([&, p] { statuses[p] = collective->Run(p, *streams_[p], run, deadline); });
    }
    for (std::thread& thread : threads) thread.join();
    for (int p = 0; p < spec_.participants; ++p) {
      const absl::Status done = streams_[p]->Synchronize();
      EXPECT_TRUE(done.ok() || !statuses[p].ok()) << done;
    }
    Move(false);
    return statuses;
  }

  // Captures the collective, as one thread does, for any number of replays. `run` is used as by Run, which then
  // continues after it.
  absl::Status Capture(uint32_t run) {
    std::vector<Stream*> streams;
    for (auto& stream : streams_) streams.push_back(stream.get());
    if (!collective->CanCapture() || !collective->BeginCapture()) return absl::UnavailableError("cannot be captured");
    absl::Status status = streams[0]->BeginCapture();
    auto begun = devices_.device(towers_[0]).NewEvent();
    streams[0]->Record(*begun, 1);
    for (size_t p = 1; p < streams.size(); ++p) status.Update(streams[p]->Wait(*begun, 1, kNever));
    status.Update(collective->RunAll(streams, run, kNever));
    std::vector<std::unique_ptr<Event>> joined;
    for (size_t p = 1; p < streams.size(); ++p) {
      joined.push_back(devices_.device(towers_[p]).NewEvent());
      streams[p]->Record(*joined.back(), 1);
      status.Update(streams[0]->Wait(*joined.back(), 1, kNever));
    }
    auto work = streams[0]->EndCapture();
    status.Update(work.status());
    if (status.ok()) capture = std::make_shared<CapturedStep>(*std::move(work), devices_.device(towers_[0]));
    if (!status.ok()) work = absl::CancelledError();
    collective->EndCapture(capture);
    collective->Reset(run);
    return status;
  }
  absl::Status Replay() {
    Move(true);
    absl::Status status = capture->Enqueue(*streams_[0]);
    status.Update(capture->Await(kNever));
    status.Update(streams_[0]->Synchronize());
    Move(false);
    return status;
  }

 private:
  Device& DeviceOf(int rank) { return devices_.device(towers_[rank % spec_.participants]); }

  void Move(bool in) {
    for (int r = 0; r < spec_.ranks; ++r) {
      ASSERT_OK_AND_ASSIGN(auto stream, DeviceOf(r).NewStream(in ? StreamKind::kCopyIn : StreamKind::kCopyOut));
      Device& host = devices_.device(0);
      const size_t bytes = memory_[r].bytes();
      ASSERT_TRUE((in ? stream->Copy(memory_[r].data(), DeviceOf(r), data[r].data(), host, bytes)
                      : stream->Copy(data[r].data(), host, memory_[r].data(), DeviceOf(r), bytes))
                      .ok());
      if (in) {
        ASSERT_TRUE(stream->Copy(weight_memory_[r].data(), DeviceOf(r), &weights[r], host, sizeof(float)).ok());
      }
      ASSERT_TRUE(stream->Synchronize().ok());
    }
  }

  MeetingSpec spec_;
  DeviceSet devices_;
  std::vector<int> towers_;
  std::vector<DeviceMemory> memory_, weight_memory_;  // by rank
  std::vector<std::unique_ptr<Stream>> streams_;      // by participant

 public:
  std::vector<std::vector<T>> data;        // by rank
  std::vector<float> weights;              // by rank
  std::unique_ptr<Collective> collective;  // destroyed before its devices
  std::shared_ptr<CapturedStep> capture;   // destroyed before the collective
};

// The weighted mean of element i over the ranks, or their sum, in double.
template <class T>
double Expected(
    CollectiveKind kind, const std::vector<std::vector<T>>& data, const std::vector<float>& weights, int64_t i,
    double (*of)(double) = [](double x) { return x; }) {
  if (kind == CollectiveKind::kBroadcast) return static_cast<double>(data[0][i]);
  double sum = 0, total = 0;
  for (size_t r = 0; r < data.size(); ++r) {
    const double weight = kind == CollectiveKind::kMean ? weights[r] : 1.0;
    if (weight == 0) continue;
    sum += weight * of(static_cast<double>(data[r][i]));
    total += weight;
  }
  return kind == CollectiveKind::kMean ? sum / total : sum;
}

}  // namespace belfry
