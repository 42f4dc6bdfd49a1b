// Words that blocks of a kernel count themselves with (ForEachBlockThenLast in framework/device/cuda/launch.h).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/device/device.h"

namespace belfry::ops {

// `count` words of the device's memory that are 0, for one kernel, which leaves them 0. Null for none.
absl::StatusOr<std::shared_ptr<uint32_t>> TakeTickets(Device& device, int64_t count);

}  // namespace belfry::ops
