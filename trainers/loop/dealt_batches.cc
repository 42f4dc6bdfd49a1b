#include "trainers/loop/dealt_batches_impl.h"

#include "framework/base/status.h"

namespace belfry::trainers {

absl::Status ForDealtBatches(const data::Dataset& dataset, const data::ImagePolicies& images, int64_t batch_size,
                             World* world, absl::FunctionRef<absl::Status(const data::Batch&)> use) {
  const int task = world == nullptr ? 0 : world->rank(), tasks = world == nullptr ? 1 : world->size();
  if (task >= data::BatchesPerEpoch(dataset.size(), batch_size, false)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto input, data::Prefetcher::Create(dataset, {.batch_size = batch_size,
                                                                        .shuffle = false,
                                                                        .epochs = 1,
                                                                        .start = {0, task},
                                                                        .stride = tasks,
                                                                        .images = images,
                                                                        .threads = 0}));
  while (true) {
    const absl::StatusOr<data::Batch> batch = input->Next();
    if (absl::IsOutOfRange(batch.status())) return absl::OkStatus();
    RETURN_IF_ERROR(batch.status());
    RETURN_IF_ERROR(use(*batch));
  }
}

}  // namespace belfry::trainers
