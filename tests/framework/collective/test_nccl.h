// NCCL for tests that run both on it and on its double.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "framework/collective/nccl_api.h"

namespace belfry {

// Collectives for the GPUs of OpenTestCards. The double fails the test if it was misused. If there is none, the error
// gives the reason and the test is skipped.
absl::StatusOr<std::shared_ptr<NcclApi>> OpenTestNccl();

}  // namespace belfry
