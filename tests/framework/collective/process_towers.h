// Towers that several processes of a world average, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/status.h"
#include "framework/collective/collective.h"
#include "framework/collective/world_collective.h"
#include "framework/device/device_set.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/main/testing.h"

namespace belfry {

// Towers of each process.
using Layout = std::vector<int>;

// The data of all towers of a run, on the host.
template <class T>
struct HostTowers {
  std::vector<std::vector<T>> data;
  std::vector<float> weights;
};

template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Towers [first, first + count) of `towers`, in one process: dealt in turn to CPU devices, or to GPUs whose memory the
// host cannot touch.
template <class T>
class ProcessTowers {
 public:
  ProcessTowers(HostTowers<T>& towers, int first, int count, int participants, CollectiveKind kind, bool gpus = false)
      : towers_(towers), first_(first) {
    // The kernels of the local averager use pointers as they are.
    const bool alone = count == static_cast<int>(towers.data.size());
    devices_ = gpus ? OpenFakeGpus(participants, /*tagged=*/!alone)
                    : *DeviceSet::Open(absl::StrCat("cpu:", participants), {.cpu_threads = 1});
    spec_ = {.kind = kind,
             .name = "test",
             .dtype = kDTypeOf<T>,
             .elements = static_cast<int64_t>(towers.data[0].size()),
             .first = first,
             .size = static_cast<int>(towers.data.size())};
    for (const int tower : devices_.TowerDevices()) {
      spec_.participants.push_back(&devices_.device(tower));
      streams_.push_back(*devices_.device(tower).NewStream(StreamKind::kCollective));
    }
    for (int t = 0; t < count; ++t) {
      Device& device = *spec_.participants[t % participants];
      data_.push_back(*DeviceMemory::Allocate(device, spec_.elements * sizeof(T)));
      weights_.push_back(*DeviceMemory::Allocate(device, sizeof(float)));
      spec_.ranks.push_back({t % participants, data_.back().data(), static_cast<const float*>(weights_.back().data())});
    }
    Move(/*in=*/true);
  }
  const CollectiveSpec& spec() const { return spec_; }
  Stream& stream(int participant) { return *streams_[participant]; }

  // A thread for each participant, as in Executable; the first error stops the others.
  absl::Status Run(Collective& collective, uint32_t run, absl::Time deadline) {
    std::vector<absl::Status> statuses(streams_.size());
    std::vector<std::thread> threads;
    for (size_t p = 0; p < streams_.size(); ++p) {
      threads.emplace_back([&, p] {
        statuses[p] = collective.Run(static_cast<int>(p), *streams_[p], run, deadline);
        if (!statuses[p].ok()) collective.Cancel();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) {
      if (!status.ok() && !absl::IsCancelled(status)) return status;
    }
    return statuses[0];
  }
  absl::Status Synchronize() {
    for (auto& stream : streams_) RETURN_IF_ERROR(stream->Synchronize());
    return absl::OkStatus();
  }
  // Copies the towers from the host, or to it.
  void Move(bool in) {
    Device& host = devices_.device(0);
    for (size_t i = 0; i < spec_.ranks.size(); ++i) {
      Device& device = *spec_.participants[spec_.ranks[i].participant];
      Stream& stream = *streams_[spec_.ranks[i].participant];
      std::vector<T>& values = towers_.data[first_ + i];
      const size_t bytes = values.size() * sizeof(T);
      ASSERT_TRUE((in ? stream.Copy(data_[i].data(), device, values.data(), host, bytes)
                      : stream.Copy(values.data(), host, data_[i].data(), device, bytes))
                      .ok());
      if (in) {
        ASSERT_TRUE(stream.Copy(weights_[i].data(), device, &towers_.weights[first_ + i], host, sizeof(float)).ok());
      }
    }
    ASSERT_TRUE(Synchronize().ok());
  }

 private:
  HostTowers<T>& towers_;
  const int first_;
  DeviceSet devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<DeviceMemory> data_, weights_;  // by tower
  CollectiveSpec spec_;
};

struct LayoutOptions {
  Ranks ranks;
  WorldSum sum = WorldSum::kTowers;
  WorldRoute route = WorldRoute::kFaster;
  uint32_t runs = 3;  // each on the result of the one before
  bool gpus = false;
};

// Runs the collective in every process of a layout, each with a device for two towers. Returns their results.
template <class T>
std::vector<absl::Status> RunProcesses(const Layout& layout, CollectiveKind kind, HostTowers<T>& towers,
                                       const LayoutOptions& options = {}) {
  return RunRanks(static_cast<int>(layout.size()), options.ranks, [&](World& world) -> absl::Status {
    const int count = layout[world.rank()];
    ASSIGN_OR_RETURN(const TowersOfWorld numbers, TowersOfWorld::Gather(world, count, In(absl::Seconds(60))));
    ProcessTowers<T> process(towers, numbers.first[world.rank()], count, (count + 1) / 2, kind, options.gpus);
    ASSIGN_OR_RETURN(const auto collective,
                     WorldCollectives(world, numbers, options.sum, options.route)(process.spec()));
    for (uint32_t run = 1; run <= options.runs; ++run) {
      RETURN_IF_ERROR(process.Run(*collective, run, In(absl::Seconds(60))));
    }
    RETURN_IF_ERROR(process.Synchronize());
    process.Move(/*in=*/false);
    return world.Close(In(absl::Seconds(60)));
  });
}
// The first error of them.
template <class T>
absl::Status RunLayout(const Layout& layout, CollectiveKind kind, HostTowers<T>& towers,
                       const LayoutOptions& options = {}) {
  for (const absl::Status& status : RunProcesses(layout, kind, towers, options)) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace belfry
