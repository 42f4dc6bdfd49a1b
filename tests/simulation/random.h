// Random numbers of a simulated run.
#pragma once

#include <cstdint>

namespace belfry::simulation {

// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): the same numbers
// on every machine, which the distributions of the standard library do not promise.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  // An integer in [0, end). REQUIRES: end > 0.
  int64_t Below(int64_t end) {
    return static_cast<int64_t>(static_cast<unsigned __int128>(Next()) * static_cast<uint64_t>(end) >> 64);
  }
  // An integer in [first, last].
  int64_t Between(int64_t first, int64_t last) { return first + Below(last - first + 1); }
  bool OneIn(int64_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace belfry::simulation
