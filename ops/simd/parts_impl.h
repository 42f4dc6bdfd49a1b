#pragma once

#include <cstdint>

namespace belfry::ops {

// The parts of `size` elements, of which the last may be smaller, that n elements have.
constexpr int64_t Parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

}  // namespace belfry::ops
