#include "waves.h"

#include <cmath>
#include <cstring>

using namespace belfry;

Waves::Waves(int64_t size) : size_(size) {
  spec_.shape = Shape{1};
  spec_.dtype = DType::kFloat32;
  spec_.label_dtype = DType::kFloat32;
}

// Called by several threads at once: it only reads members.
absl::Status Waves::Read(int64_t index, absl::Span<std::byte> scratch, data::Example& example) const {
  const float x = -1 + 2 * static_cast<float>(index) / static_cast<float>(size_ - 1);
  std::memcpy(scratch.data(), &x, sizeof(x));
  example.input = scratch.data();
  example.target = std::sin(6 * x) / 2 + x;
  return absl::OkStatus();
}
