// Names of devices: "/job:localhost/replica:0/task:0/device:GPU:0", partial, with wildcards, and the legacy "/gpu:0".
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry {

// A parsed device name; a field that is not set puts no constraint. A value.
struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // "CPU", "GPU"
  std::optional<int> id;

  static absl::StatusOr<DeviceName> Parse(absl::string_view text);
  std::string ToString() const;
  // "/job:localhost/replica:0/task:0/gpu:0": how TensorFlow up to 1.1 prints a device, and the placement log.
  std::string ToLegacyString() const;
  bool operator==(const DeviceName& other) const = default;
};

// Fields set in `inner` override those of `outer`: how nested device scopes combine.
DeviceName MergeOverride(DeviceName outer, const DeviceName& inner);

}  // namespace belfry
