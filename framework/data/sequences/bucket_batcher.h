// Batches of sequences of similar lengths, padded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/data/ring/example_ring.h"
#include "framework/data/sequences/buckets.h"
#include "framework/data/sequences/sequence_dataset.h"

namespace belfry::data {

struct BucketBatcherOptions {
  int64_t batch_size = 128;  // of whole batches in all towers, split by RangeOfTower
  // The lengths to which batches are padded, ascending. Empty: 8, 16, 32 ... up to the longest sequence, so that at
  // most half of a batch of sequences longer than 8 is padding.
  std::vector<int64_t> buckets = {};
  int towers = 1;        // of all processes
  int first_tower = 0;   // the first one whose examples are made here
  int local_towers = 0;  // number of towers whose examples are made here; 0: all from first_tower
  uint64_t seed = 0;
  bool shuffle = true;          // a new order each epoch; otherwise the dataset's order
  bool drop_remainder = false;  // skip the last, smaller batch of each bucket
  int64_t epochs = 0;           // stop before the epoch of this number; 0: never stop
  Position start = {};          // the first batch; to resume, the Batch::next of the last one trained on
  // The numbers to pad fields with, such as a label to ignore; 0 for the others.
  std::map<std::string, double> padding = {};
  std::string length_field = "length";  // the name of the field with the lengths
};

// Batches of sequences, each from one bucket: sequences of similar lengths, padded to the bucket's bound. So there are
// at most two shapes for each bucket, whole batches and a smaller one, and a step is compiled for each. A batch has the
// fields of the dataset, of sequences [?, ...], and their lengths, int32 [].
//
// Every example is in one batch of an epoch. The contents of a batch depend only on (dataset, buckets, seed,
// batch_size, shuffle, drop_remainder, position); the towers' parts, one after the other, are the same for any number
// of towers. The caller's thread makes the batches (ReadAhead has one of its own), in memory that is allocated for each
// shape and for each batch on loan at once. Next returns OutOfRange after the last epoch, and the dataset's error,
// after which it tries the same batch again. Thread-safe.
class BucketBatcher final : public ExampleRing {
 public:
  // `dataset` must outlive the result. InvalidArgument for options that cannot make a batch: sizes below 1, a start
  // outside the epoch, buckets that Buckets::Make refuses, a padding for what is not a sequence or that its dtype
  // cannot hold; an empty dataset, or one whose fields are not as SequenceDataset says.
  static absl::StatusOr<std::unique_ptr<BucketBatcher>> Create(const SequenceDataset& dataset,
                                                               BucketBatcherOptions options);
  ~BucketBatcher() override { Stop(); }

  std::vector<BatchShape> shapes() const override;
  // data::PutPosition, and the buckets as "data.buckets".
  void PutPosition(Position next, io::Metadata& metadata) const override;
  absl::StatusOr<std::vector<std::string>> Settings() const override;

  const Buckets& buckets() const { return buckets_; }
  // The share of padding among the steps of an epoch's batches, smaller ones included.
  double padding() const;

 private:
  BucketBatcher(const SequenceDataset& dataset, PrefetcherOptions options, std::vector<Field> fields, Buckets buckets,
                std::vector<Tensor> padding);
  void Open(Slot& slot) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeExample(const Slot& slot, TowerBatch& tower, int64_t at, int worker) override;

  const SequenceDataset& dataset_;
  const Buckets buckets_;
  const std::vector<Tensor> padding_;          // by field of the dataset: a number, of sequences
  BucketEpoch epoch_ ABSL_GUARDED_BY(mutex_);  // number dealt_
  int64_t dealt_ ABSL_GUARDED_BY(mutex_) = -1;
  std::vector<std::byte*> places_;  // of an example's fields
};

}  // namespace belfry::data
