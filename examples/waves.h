// A data set of one's own: points of a wave, computed when they are read.
#pragma once

#include <vector>

#include "framework/data/dataset.h"

// Example i: "x" [1], evenly spaced in [-1, 1], and "y" [], sin(6 x) / 2 + x.
class Waves : public belfry::data::Dataset {
 public:
  explicit Waves(int64_t size);
  int64_t size() const override { return size_; }
  absl::Span<const belfry::data::Field> fields() const override { return fields_; }
  absl::Status Read(int64_t index, const belfry::data::Example& example) const override;

 private:
  const int64_t size_;
  const std::vector<belfry::data::Field> fields_;
};
