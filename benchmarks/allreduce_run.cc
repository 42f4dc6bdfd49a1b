#include "benchmarks/allreduce_run.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/collective/nccl.h"

namespace belfry::benchmarks {
namespace {

// Element `i` of rank `rank`'s input, and of the mean over the ranks.
float Given(int rank, int64_t i) { return static_cast<float>((rank + 1) * (i % 1000 + 1)); }
double Expected(int ranks, int64_t i) { return (ranks + 1) / 2.0 * static_cast<double>(i % 1000 + 1); }

struct Rank {
  Device* device = nullptr;
  std::unique_ptr<Stream> stream;
  DeviceMemory data, weight;
};

absl::StatusOr<Rank> MakeRank(Device& device, const Device& host, int rank, int64_t elements) {
  Rank made{.device = &device};
  ASSIGN_OR_RETURN(made.stream, device.NewStream(StreamKind::kCollective));
  ASSIGN_OR_RETURN(made.data, DeviceMemory::Allocate(device, static_cast<size_t>(elements) * sizeof(float)));
  ASSIGN_OR_RETURN(made.weight, DeviceMemory::Allocate(device, sizeof(float)));
  std::vector<float> values(static_cast<size_t>(elements));
  for (int64_t i = 0; i < elements; ++i) values[i] = Given(rank, i);
  const float weight = 1;
  RETURN_IF_ERROR(made.stream->Copy(made.data.data(), device, values.data(), host, made.data.bytes()));
  RETURN_IF_ERROR(made.stream->Copy(made.weight.data(), device, &weight, host, sizeof(float)));
  RETURN_IF_ERROR(made.stream->Synchronize());
  return made;
}

// Performs `count` runs of the collective on all ranks, from run `next` on, which moves behind them. Returns the
// seconds that one run took.
absl::StatusOr<double> RunAll(Collective& collective, std::vector<Rank>& ranks, uint32_t count, uint32_t& next) {
  const uint32_t begin = next, end = next += count;
  std::vector<absl::Status> statuses(ranks.size());
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&collective, &ranks, &statuses, i, begin, end] {
      const ScopedParallelThreads scoped(ranks[i].device->threads());
      for (uint32_t run = begin; run < end && statuses[i].ok(); ++run) {
        statuses[i] = collective.Run(static_cast<int>(i), *ranks[i].stream, run, absl::InfiniteFuture());
      }
      statuses[i].Update(ranks[i].stream->Synchronize());
      if (!statuses[i].ok()) collective.Cancel();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return Seconds(start) / count;
}

absl::StatusOr<double> LargestError(std::vector<Rank>& ranks, const Device& host, int64_t elements) {
  double largest = 0;
  std::vector<float> values(static_cast<size_t>(elements));
  for (Rank& rank : ranks) {
    RETURN_IF_ERROR(
        rank.stream->Copy(values.data(), host, rank.data.data(), *rank.device, values.size() * sizeof(float)));
    RETURN_IF_ERROR(rank.stream->Synchronize());
    for (int64_t i = 0; i < elements; ++i) {
      const double expected = Expected(static_cast<int>(ranks.size()), i);
      const double error = std::abs(values[i] - expected) / expected;
      largest = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest, error);
    }
  }
  return largest;
}

}  // namespace

double AlgorithmBandwidth(double bytes, double seconds) { return bytes / seconds; }

double BusBandwidth(double algorithm_bandwidth, int ranks) { return algorithm_bandwidth * 2 * (ranks - 1) / ranks; }

absl::StatusOr<CollectiveFactory> FindAverager(absl::string_view name) {
  if (name == "local") return CollectiveFactory(MakeLocalCollective);
  if (name == "nccl") return NcclFactory();
  return absl::InvalidArgumentError(absl::StrCat("--averager=", name, " is unknown; expected local or nccl"));
}

absl::StatusOr<AllReduceResult> RunAllReduce(const DeviceSet& devices, const CollectiveFactory& factory,
                                             int64_t elements, int rounds, double seconds) {
  const Device& host = devices.device(0);  // every set begins with a CPU device
  std::vector<Rank> ranks;
  CollectiveSpec spec{.name = "allreduce", .elements = elements};
  for (int i : devices.TowerDevices()) {
    ASSIGN_OR_RETURN(Rank rank, MakeRank(devices.device(i), host, static_cast<int>(ranks.size()), elements));
    spec.participants.push_back(rank.device);
    spec.ranks.push_back({.participant = static_cast<int>(ranks.size()),
                          .data = rank.data.data(),
                          .weight = static_cast<const float*>(rank.weight.data())});
    ranks.push_back(std::move(rank));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Collective> collective, factory(std::move(spec)));
  AllReduceResult result;
  uint32_t next = 1;
  RETURN_IF_ERROR(RunAll(*collective, ranks, 1, next).status());
  ASSIGN_OR_RETURN(result.largest_error, LargestError(ranks, host, elements));

  // Enough runs that starting the threads does not count.
  uint32_t runs = 8;
  for (;;) {
    ASSIGN_OR_RETURN(const double one, RunAll(*collective, ranks, runs, next));
    if (one * runs >= seconds / 2 || runs >= (1u << 24)) break;
    runs *= 2;
  }
  for (int round = 0; round < rounds; ++round) {
    ASSIGN_OR_RETURN(result.seconds.emplace_back(), RunAll(*collective, ranks, runs, next));
  }
  return result;
}

}  // namespace belfry::benchmarks
