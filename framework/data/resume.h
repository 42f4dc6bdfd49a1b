// Where a training stands in its data, as text in a checkpoint's metadata.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/data/prefetcher.h"
#include "framework/io/safetensors.h"

namespace belfry::data {

// Adds to `metadata` the position of the batch to train on next (Batch::next of the last one), and what decides which
// examples that batch holds: the seed, the global batch size, whether it shuffles and drops the remainder, and how many
// examples there are. Keys: "data.epoch", "data.batch", "data.seed", "data.batch_size", "data.shuffle",
// "data.drop_remainder", "data.examples".
void PutPosition(const PrefetcherOptions& options, int64_t examples, Position next, io::Metadata& metadata);

struct ResumeOptions {
  // A position counts batches, so another batch size would skip examples or take some twice. With this, the position is
  // converted by examples: the epoch goes on at the first batch of the new size that holds an example not seen yet, so
  // none is skipped, and up to one batch less one example is taken twice; an epoch of which nothing is left is over.
  bool allow_other_batch_size = false;
};

// The PrefetcherOptions::start that goes on where PutPosition was called. The batches from there on are bit for bit
// those of a training that was not interrupted; the number of towers, of threads and the depth may be others. Images'
// augmentation is not in the metadata; it must be the same for that.
//
// InvalidArgument: the metadata have no position, or one that is no number or lies outside the epoch.
// FailedPrecondition: `options` or `examples` differ from what was put, with both values and what to do.
absl::StatusOr<Position> TakePosition(const io::Metadata& metadata, const PrefetcherOptions& options, int64_t examples,
                                      const ResumeOptions& resume = {});

}  // namespace belfry::data
