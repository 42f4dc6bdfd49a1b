// Histograms of values, as TensorBoard shows them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/base/tensor.h"

namespace belfry::io {

// TensorFlow's histogram: bucket limits grow by a tenth from 1e-12 to 1e20, are mirrored for negative values, and have
// 0 between them (tensorflow/core/lib/histogram/histogram.cc). A value type; not thread-safe.
class Histogram {
 public:
  // Upper limits of all buckets, ascending; the last is the largest double. Bucket i holds the values in [limit i-1,
  // limit i).
  static absl::Span<const double> Limits();

  Histogram() : buckets_(Limits().size()) {}
  // The histogram of all elements of `tensor`; true counts as 1.
  explicit Histogram(const Tensor& tensor) : Histogram() { Add(tensor); }

  void Add(double value);
  void Add(const Tensor& tensor);
  // Adds the values that were added to `other`.
  void Merge(const Histogram& other);

  // These cover the finite values; NaN and infinities are only counted in not_finite(). All are 0 if there are none.
  int64_t count() const { return count_; }
  double min() const { return min_; }
  double max() const { return max_; }
  double sum() const { return sum_; }
  double sum_squares() const { return sum_squares_; }
  int64_t not_finite() const { return not_finite_; }
  // One count for each of Limits().
  absl::Span<const int64_t> buckets() const { return buckets_; }

 private:
  template <class T>
  void AddAll(const T* values, int64_t n);

  std::vector<int64_t> buckets_;
  int64_t count_ = 0, not_finite_ = 0;
  double min_ = 0, max_ = 0, sum_ = 0, sum_squares_ = 0;
};

}  // namespace belfry::io
