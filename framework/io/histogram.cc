#include "framework/io/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "framework/base/half.h"

namespace belfry::io {
namespace {

constexpr double kSmallest = 1e-12, kLargest = 1e20, kGrowth = 1.1;

// Numbers that share an exponent and the first bits of their fraction share a cell; a cell reaches into few buckets.
constexpr int kCellShift = 52 - 3;
uint64_t CellOf(double magnitude) { return std::bit_cast<uint64_t>(magnitude) >> kCellShift; }

struct Buckets {
  std::vector<double> limits;
  std::vector<uint16_t> first;  // by cell from that of kSmallest: the bucket of the cell's smallest number
  uint64_t first_cell, last_cell;

  Buckets() {
    std::vector<double> positive;
    for (double limit = kSmallest; limit < kLargest; limit *= kGrowth) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::transform(positive.rbegin(), positive.rend(), std::back_inserter(limits), [](double x) { return -x; });
    limits.push_back(0);
    limits.insert(limits.end(), positive.begin(), positive.end());

    first_cell = CellOf(kSmallest);
    last_cell = CellOf(kLargest);
    for (uint64_t cell = first_cell; cell <= last_cell; ++cell) {
      first.push_back(static_cast<uint16_t>(Search(std::bit_cast<double>(cell << kCellShift))));
    }
  }

  size_t Search(double value) const {
    return static_cast<size_t>(std::upper_bound(limits.begin(), limits.end(), value) - limits.begin());
  }

  // REQUIRES: value is finite.
  size_t Find(double value) const {
    const double magnitude = std::fabs(value);
    const uint64_t cell = CellOf(magnitude);
    if (cell < first_cell || cell > last_cell) return std::min(Search(value), limits.size() - 1);
    size_t bucket = first[cell - first_cell];
    if (value < 0) {
      // Mirrored, a bucket holds its upper limit and not its lower one.
      for (--bucket; limits[bucket] < magnitude;) ++bucket;
      return limits.size() - bucket;
    }
    while (limits[bucket] <= magnitude) ++bucket;
    return bucket;
  }
};

const Buckets& AllBuckets() {
  static const auto* const buckets = new Buckets();
  return *buckets;
}

template <class T>
void AddAll(const Tensor& tensor, Histogram& histogram) {
  const T* data = tensor.data<T>();
  for (int64_t i = 0; i < tensor.elements(); ++i) histogram.Add(static_cast<double>(data[i]));
}

}  // namespace

absl::Span<const double> Histogram::Limits() { return AllBuckets().limits; }

void Histogram::Add(double value) {
  if (!std::isfinite(value)) {
    ++not_finite_;
    return;
  }
  ++buckets_[AllBuckets().Find(value)];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  ++count_;
  sum_ += value;
  sum_squares_ += value * value;
}

void Histogram::Add(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return AddAll<float>(tensor, *this);
    case DType::kFloat64: return AddAll<double>(tensor, *this);
    case DType::kFloat16: return AddAll<Half>(tensor, *this);
    case DType::kBFloat16: return AddAll<BFloat16>(tensor, *this);
    case DType::kInt32: return AddAll<int32_t>(tensor, *this);
    case DType::kInt64: return AddAll<int64_t>(tensor, *this);
    case DType::kUInt8: return AddAll<uint8_t>(tensor, *this);
    case DType::kBool: return AddAll<bool>(tensor, *this);
  }
}

void Histogram::Merge(const Histogram& other) {
  not_finite_ += other.not_finite_;
  if (other.count_ == 0) return;
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = count_ == 0 ? other.max_ : std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
  sum_squares_ += other.sum_squares_;
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
}

}  // namespace belfry::io
