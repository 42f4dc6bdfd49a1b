// The back-ends that the conformance suites of devices and collectives run over.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "framework/device/device_set.h"

namespace belfry {

inline const absl::Time kNever = absl::InfiniteFuture();
inline constexpr size_t kMi = size_t{1} << 20, kGi = size_t{1} << 30;  // bytes

// One kind of device. A new one needs an element in DeviceBackends(), and no new test.
struct DeviceBackend {
  std::string name;  // for the names of test cases
  std::string spec;  // opens two devices of this kind through DeviceSet::Open
  DeviceOptions options = {};
  // Pairs of (test, reason) for tests that it cannot pass; they are skipped with the reason.
  std::vector<std::pair<std::string, std::string>> cannot = {};
};
inline void PrintTo(const DeviceBackend& backend, std::ostream* out) { *out << backend.name; }

std::vector<DeviceBackend> DeviceBackends();

}  // namespace belfry
