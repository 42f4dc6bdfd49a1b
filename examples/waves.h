// A data set of one's own: points of a wave, computed when they are read.
#pragma once

#include "framework/data/dataset.h"

// Example i: x [1], evenly spaced in [-1, 1], and the target sin(6 x) / 2 + x.
class Waves : public belfry::data::Dataset {
 public:
  explicit Waves(int64_t size);
  int64_t size() const override { return size_; }
  const belfry::data::ExampleSpec& spec() const override { return spec_; }
  absl::Status Read(int64_t index, absl::Span<std::byte> scratch, belfry::data::Example& example) const override;

 private:
  const int64_t size_;
  belfry::data::ExampleSpec spec_;
};
