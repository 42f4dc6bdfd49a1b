// Counter-based random numbers: the same (key, counter) gives the same bits on every device, thread and tower. The
// functions are `constexpr` so that nvcc can compile them for the device too (--expt-relaxed-constexpr).
#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace belfry {

namespace philox {
inline constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
}  // namespace philox

// Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC'11). Four 32-bit
// words from a 64-bit key and a 128-bit counter; no state.
constexpr std::array<uint32_t, 4> Philox4x32(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  auto c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  auto c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{philox::kMultiplier0} * c0, p1 = uint64_t{philox::kMultiplier1} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += philox::kWeyl0;
    k1 += philox::kWeyl1;
  }
  return {c0, c1, c2, c3};
}

// Writes `blocks` consecutive blocks, Philox4x32(key, counter_high, counter_low + i), to words[4 * i] ... words[4 * i +
// 3]. Vectorised, for tensors of random numbers.
void PhiloxBlocks(uint64_t key, uint64_t counter_high, uint64_t counter_low, int64_t blocks, uint32_t* words);

// A stable 64-bit key from a seed and a logical name (FNV-1a, then mixed). It makes all replicas of a variable start
// with the same values.
uint64_t RandomKey(uint64_t seed, absl::string_view logical_name);

// UniformFloat maps the 24 high bits of a word to [0, 1); UniformDouble maps the 53 high bits of two words to [0, 1).
constexpr float UniformFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
constexpr double UniformDouble(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

// A stream of words for scalar code that draws a varying number of them (augmentation, shuffling): successive blocks of
// one key and counter_high. A value type; not thread-safe.
class PhiloxStream {
 public:
  constexpr PhiloxStream(uint64_t key, uint64_t counter_high) : key_(key), high_(counter_high) {}
  constexpr uint32_t Next() {
    if (used_ == 4) {
      block_ = Philox4x32(key_, high_, low_++);
      used_ = 0;
    }
    return block_[used_++];
  }
  // Uniform in [0, 1).
  constexpr float NextFloat() { return UniformFloat(Next()); }
  // Uniform in {0, ..., bound - 1} without modulo bias: Lemire, "Fast random integer generation in an interval" (2019).
  // The high word of word * bound is the result, and words whose low product word is under 2^32 mod bound are rejected,
  // which leaves every result equally many words. REQUIRES: bound > 0.
  constexpr uint32_t NextBelow(uint32_t bound) {
    uint64_t product = uint64_t{Next()} * bound;
    // Rarely so: the division is reached with probability bound / 2^32.
    if (static_cast<uint32_t>(product) < bound) {
      const uint32_t threshold = -bound % bound;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{Next()} * bound;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  uint64_t key_, high_, low_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace belfry
