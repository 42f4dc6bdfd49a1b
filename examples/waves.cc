#include "waves.h"

#include <cmath>

using namespace belfry;

Waves::Waves(int64_t size) : size_(size), fields_({{"x", DType::kFloat32, {1}}, {"y", DType::kFloat32, {}}}) {}

// Called by several threads at once: it only reads members.
absl::Status Waves::Read(int64_t index, const data::Example& example) const {
  const float x = -1 + 2 * static_cast<float>(index) / static_cast<float>(size_ - 1);
  *example.field<float>(0) = x;
  *example.field<float>(1) = std::sin(6 * x) / 2 + x;
  return absl::OkStatus();
}
