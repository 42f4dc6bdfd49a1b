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

// Positive numbers with the same exponent and the same leading five bits of their fraction share a cell. A cell spans
// at most 1/32 of its lower end and a bucket a tenth, so a cell overlaps at most two buckets.
constexpr int kCellShift = 52 - 5;

struct Buckets {
  std::vector<double> limits;
  std::vector<uint16_t> first;  // for each cell from that of kSmallest on: the bucket of the cell's smallest number
  uint64_t first_cell;

  Buckets() {
    std::vector<double> positive;
    for (double limit = kSmallest; limit < kLargest; limit *= kGrowth) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::transform(positive.rbegin(), positive.rend(), std::back_inserter(limits), [](double x) { return -x; });
    limits.push_back(0);
    limits.insert(limits.end(), positive.begin(), positive.end());

    first_cell = std::bit_cast<uint64_t>(kSmallest) >> kCellShift;
    const uint64_t last_cell = std::bit_cast<uint64_t>(kLargest) >> kCellShift;
    for (uint64_t cell = first_cell; cell <= last_cell; ++cell) {
      first.push_back(static_cast<uint16_t>(Search(std::bit_cast<double>(cell << kCellShift))));
    }
  }

  size_t Search(double value) const {
    return static_cast<size_t>(std::upper_bound(limits.begin(), limits.end(), value) - limits.begin());
  }

  // REQUIRES: value is finite.
  size_t Find(double value) const {
    if (value == 0) return limits.size() / 2 + 1;
    // A bucket contains its lower limit and not its upper one. Mirrored it is the other way round, which stepping to
    // the next number towards 0 corrects.
    const bool negative = value < 0;
    const uint64_t bits = std::bit_cast<uint64_t>(std::fabs(value)) - (negative ? 1 : 0);
    const uint64_t cell = (bits >> kCellShift) - first_cell;
    if (cell >= first.size()) return std::min(Search(value), limits.size() - 1);
    size_t bucket = first[cell];
    bucket += limits[bucket] <= std::bit_cast<double>(bits) ? 1 : 0;
    return negative ? limits.size() - bucket : bucket;
  }
};

const Buckets& AllBuckets() {
  static const auto* const buckets = new Buckets();
  return *buckets;
}

}  // namespace

absl::Span<const double> Histogram::Limits() { return AllBuckets().limits; }

void Histogram::Add(double value) { AddAll(&value, 1); }

template <class T>
void Histogram::AddAll(const T* values, int64_t n) {
  const Buckets& all = AllBuckets();
  int64_t finite = 0;
  double min = std::numeric_limits<double>::infinity(), max = -min, sum = 0, sum_squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!std::isfinite(value)) continue;
    ++buckets_[all.Find(value)];
    ++finite;
    min = std::min(min, value);
    max = std::max(max, value);
    sum += value;
    sum_squares += value * value;
  }
  not_finite_ += n - finite;
  if (finite == 0) return;
  min_ = count_ == 0 ? min : std::min(min_, min);
  max_ = count_ == 0 ? max : std::max(max_, max);
  count_ += finite;
  sum_ += sum;
  sum_squares_ += sum_squares;
}

void Histogram::Add(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return AddAll(tensor.data<float>(), tensor.elements());
    case DType::kFloat64: return AddAll(tensor.data<double>(), tensor.elements());
    case DType::kFloat16: return AddAll(tensor.data<Half>(), tensor.elements());
    case DType::kBFloat16: return AddAll(tensor.data<BFloat16>(), tensor.elements());
    case DType::kInt32: return AddAll(tensor.data<int32_t>(), tensor.elements());
    case DType::kInt64: return AddAll(tensor.data<int64_t>(), tensor.elements());
    case DType::kUInt8: return AddAll(tensor.data<uint8_t>(), tensor.elements());
    case DType::kBool: return AddAll(tensor.data<bool>(), tensor.elements());
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
