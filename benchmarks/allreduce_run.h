// Averages between devices, timed and checked.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/collective/collective.h"
#include "framework/device/device_set.h"

namespace belfry::benchmarks {

// As nccl-tests defines them (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): algorithm bandwidth is bytes / time;
// bus bandwidth is what of it every link carries at least, algorithm bandwidth * 2 (ranks - 1) / ranks.
double AlgorithmBandwidth(double bytes, double seconds);
double BusBandwidth(double algorithm_bandwidth, int ranks);

struct AllReduceResult {
  std::vector<double> seconds;  // of one average, one value a round
  double largest_error = 0;     // of any element of any rank, relative to the mean
};

// The mean of `elements` floats, one rank on each of devices.TowerDevices(), by the collectives of `factory`: first
// checked, then timed for `rounds` times about `seconds`. Each rank has a host thread of its own.
absl::StatusOr<AllReduceResult> RunAllReduce(const DeviceSet& devices, const CollectiveFactory& factory,
                                             int64_t elements, int rounds, double seconds);

}  // namespace belfry::benchmarks
