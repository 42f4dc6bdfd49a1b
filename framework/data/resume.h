// The position of a training run in its data, saved in a checkpoint's metadata.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/data/prefetcher_options.h"
#include "framework/io/safetensors.h"

namespace belfry::data {

// Adds to `metadata` the position of the batch to train on next (Batch::next of the last one), and everything that
// decides which examples that batch holds: the seed, the global batch size, shuffling, dropping of the remainder, and
// the number of examples. Keys: "data.epoch", "data.batch", "data.seed", "data.batch_size", "data.shuffle",
// "data.drop_remainder", "data.examples".
void PutPosition(const PrefetcherOptions& options, int64_t examples, Position next, io::Metadata& metadata);

// FailedPrecondition, with both positions, if a source that writes `now` as its position (BatchSource::PutPosition)
// does not stand where `saved` was written. Keys that only one of them has do not matter. Of a source with another
// batch size the position is converted as ResumeOptions::allow_other_batch_size says.
absl::Status CheckPosition(const io::Metadata& saved, const io::Metadata& now);

struct ResumeOptions {
  // A position counts batches, so with another batch size some examples would be skipped or repeated. If true, the
  // position is converted by examples: the epoch continues at the first batch of the new size that holds an unseen
  // example. None is skipped, and at most one batch less one example is repeated; an epoch with nothing left is over.
  bool allow_other_batch_size = false;
};

// The PrefetcherOptions::start that continues where PutPosition was called. The batches from there on are bit for bit
// those of an uninterrupted run, with any number of towers and threads and any depth. The image policy is not in the
// metadata; it must be the same too.
//
// InvalidArgument: the metadata have no position, or one that is not a number or lies outside the epoch.
// FailedPrecondition: `options` or `examples` differ from the saved ones; the message has both values and the remedy.
absl::StatusOr<Position> TakePosition(const io::Metadata& metadata, const PrefetcherOptions& options, int64_t examples,
                                      const ResumeOptions& resume = {});

}  // namespace belfry::data
