// Buckets of examples by length, and the batches of an epoch that is dealt from them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace belfry::data {

// Examples [begin, begin + count) of an epoch's order, all of one bucket.
struct BucketBatch {
  int64_t begin = 0, count = 0;
  size_t bucket = 0;
};

// The batches of an epoch, in their order.
struct BucketEpoch {
  std::vector<int64_t> order;  // indices of examples
  std::vector<BucketBatch> batches;
};

// The examples of a dataset in buckets. An example is in the bucket of the first bound that is not below its length.
class Buckets {
 public:
  // `bounds` must ascend from at least 1; if there are none, they are 8, 16, 32 ... up to the longest length, which
  // ends them. InvalidArgument for other bounds, and for a length, whose example is named, that is negative or above
  // all.
  static absl::StatusOr<Buckets> Make(absl::Span<const int64_t> lengths, std::vector<int64_t> bounds);

  absl::Span<const int64_t> bounds() const { return bounds_; }
  // Number of examples in each bucket.
  absl::Span<const int64_t> sizes() const { return sizes_; }
  // Number of batches of an epoch. Each bucket has a last, smaller batch if batch_size does not divide its size, unless
  // drop_remainder.
  int64_t BatchesPerEpoch(int64_t batch_size, bool drop_remainder) const;
  // The batches of epoch `epoch`: the examples in the order of ShuffleEpoch, or of the dataset, fill one batch in each
  // bucket, and the batches come in an order of their own, or in that in which they were full. Every example is in one
  // of them, unless drop_remainder leaves it out. Depends on the arguments only.
  BucketEpoch Deal(uint64_t seed, int64_t epoch, bool shuffle, int64_t batch_size, bool drop_remainder) const;

 private:
  std::vector<int64_t> bounds_, sizes_;
  std::vector<size_t> bucket_of_;  // by example
};

}  // namespace belfry::data
