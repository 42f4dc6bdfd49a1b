// All-reduce between devices, checked and timed.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/collective/collective.h"
#include "framework/device/device_set.h"

namespace belfry::benchmarks {

// Bandwidths as nccl-tests defines them (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md). Algorithm bandwidth is
// bytes / time. Bus bandwidth is the share of it that every link must carry at least: algorithm bandwidth * 2 (ranks -
// 1) / ranks.
double AlgorithmBandwidth(double bytes, double seconds);
double BusBandwidth(double algorithm_bandwidth, int ranks);

// The collectives of "local" or "nccl". InvalidArgument: another name.
absl::StatusOr<CollectiveFactory> FindAverager(absl::string_view name);

struct AllReduceResult {
  std::vector<double> seconds;  // of one all-reduce, one value per round
  double largest_error = 0;     // over all elements and ranks, relative to the mean
};

// Averages `elements` floats with the collectives of `factory`, with one rank on each of devices.TowerDevices(): first
// checks the result, then times `rounds` rounds of about `seconds` each. Each rank has its own host thread.
absl::StatusOr<AllReduceResult> RunAllReduce(const DeviceSet& devices, const CollectiveFactory& factory,
                                             int64_t elements, int rounds, double seconds);

}  // namespace belfry::benchmarks
