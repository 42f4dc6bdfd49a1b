#include "framework/data/sequences/buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "framework/data/sampler.h"

namespace belfry::data {
namespace {

constexpr int64_t kSmallestBound = 8;

std::vector<int64_t> DoublingBounds(int64_t longest) {
  std::vector<int64_t> bounds;
  for (int64_t bound = kSmallestBound; bound < longest; bound *= 2) bounds.push_back(bound);
  bounds.push_back(std::max<int64_t>(longest, 1));
  return bounds;
}

}  // namespace

absl::StatusOr<Buckets> Buckets::Make(absl::Span<const int64_t> lengths, std::vector<int64_t> bounds) {
  if (bounds.empty()) {
    const auto longest = std::max_element(lengths.begin(), lengths.end());
    bounds = DoublingBounds(longest == lengths.end() ? 0 : *longest);
  }
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (bounds[i] > (i == 0 ? 0 : bounds[i - 1])) continue;
    return absl::InvalidArgumentError(absl::StrCat("the bounds of buckets are ", absl::StrJoin(bounds, ", "),
                                                   "; expected ascending lengths of at least 1"));
  }
  Buckets buckets;
  buckets.sizes_.resize(bounds.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto found = std::lower_bound(bounds.begin(), bounds.end(), lengths[i]);
    if (lengths[i] < 0 || found == bounds.end()) {
      return absl::InvalidArgumentError(absl::StrCat("example ", i, " has the length ", lengths[i],
                                                     "; expected 0 to the last bound of buckets, ", bounds.back()));
    }
    buckets.bucket_of_.push_back(static_cast<size_t>(found - bounds.begin()));
    ++buckets.sizes_[buckets.bucket_of_.back()];
  }
  buckets.bounds_ = std::move(bounds);
  return buckets;
}

int64_t Buckets::BatchesPerEpoch(int64_t batch_size, bool drop_remainder) const {
  int64_t batches = 0;
  for (const int64_t size : sizes_) batches += data::BatchesPerEpoch(size, batch_size, drop_remainder);
  return batches;
}

BucketEpoch Buckets::Deal(uint64_t seed, int64_t epoch, bool shuffle, int64_t batch_size, bool drop_remainder) const {
  std::vector<int64_t> examples(bucket_of_.size());
  std::iota(examples.begin(), examples.end(), int64_t{0});
  if (shuffle) ShuffleEpoch(seed, epoch, absl::MakeSpan(examples));
  BucketEpoch dealt;
  dealt.order.reserve(examples.size());
  std::vector<std::vector<int64_t>> open(bounds_.size());
  const auto close = [&](size_t bucket) {
    const auto begin = static_cast<int64_t>(dealt.order.size());
    dealt.order.insert(dealt.order.end(), open[bucket].begin(), open[bucket].end());
    dealt.batches.push_back({begin, static_cast<int64_t>(open[bucket].size()), bucket});
    open[bucket].clear();
  };
  for (const int64_t example : examples) {
    const size_t bucket = bucket_of_[static_cast<size_t>(example)];
    open[bucket].push_back(example);
    if (static_cast<int64_t>(open[bucket].size()) == batch_size) close(bucket);
  }
  for (size_t bucket = 0; bucket < open.size() && !drop_remainder; ++bucket) {
    if (!open[bucket].empty()) close(bucket);
  }
  if (!shuffle) return dealt;
  // Otherwise the smaller batches would always be the last.
  std::vector<int64_t> places(dealt.batches.size());
  ShuffleEpoch(RandomKey(seed, "batches"), epoch, absl::MakeSpan(places));
  std::vector<BucketBatch> shuffled;
  for (const int64_t place : places) shuffled.push_back(dealt.batches[static_cast<size_t>(place)]);
  dealt.batches = std::move(shuffled);
  return dealt;
}

}  // namespace belfry::data
