// The batches of a data set, dealt among the processes of a run.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "framework/collective/world.h"
#include "framework/data/prefetcher.h"

namespace belfry::trainers {

// Calls use(batch) for this process's batches of one pass in the dataset's order: batches rank, rank + size ... of
// `world`; null: all. Stops at the first error, of the dataset or of `use`.
absl::Status ForDealtBatches(const data::Dataset& dataset, const data::ImagePolicies& images, int64_t batch_size,
                             World* world, absl::FunctionRef<absl::Status(const data::Batch&)> use);

}  // namespace belfry::trainers
