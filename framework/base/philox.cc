#include "framework/base/philox.h"

#include <algorithm>

namespace belfry {
namespace {

using philox::kMultiplier0, philox::kMultiplier1, philox::kWeyl0, philox::kWeyl1;

// MurmurHash3's 64-bit finaliser, a bijection: every input bit affects every output bit.
uint64_t Mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

}  // namespace

// Invariant: block i of the output is Philox4x32(key, counter_high, counter_low + i) bit for bit, whatever `blocks` is.
// It holds because a block is a function of its own counter alone: lanes never exchange data, every lane runs the ten
// rounds with the same key schedule, and 64-bit addition wraps counter_low for block i exactly as for a single call. So
// a tensor may be cut between threads or towers at any block and keep its bits. Working on kLanes counters side by side
// lets the compiler vectorise the inner loops; it keeps them as loops only where they are this long. The cost is up to
// half of the lanes computed and dropped at the end.
void PhiloxBlocks(uint64_t key, uint64_t counter_high, uint64_t counter_low, int64_t blocks, uint32_t* words) {
  constexpr int kLanes = 64;
  int64_t first = 0;
  for (; blocks - first > kLanes / 2; first += kLanes) {
    uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t low = counter_low + static_cast<uint64_t>(first) + static_cast<uint64_t>(i);
      c0[i] = static_cast<uint32_t>(low);
      c1[i] = static_cast<uint32_t>(low >> 32);
      c2[i] = static_cast<uint32_t>(counter_high);
      c3[i] = static_cast<uint32_t>(counter_high >> 32);
    }
    auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
#pragma omp simd
      for (int i = 0; i < kLanes; ++i) {
        const uint64_t p0 = uint64_t{kMultiplier0} * c0[i], p1 = uint64_t{kMultiplier1} * c2[i];
        c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
        c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
        c1[i] = static_cast<uint32_t>(p1);
        c3[i] = static_cast<uint32_t>(p0);
      }
      k0 += kWeyl0;
      k1 += kWeyl1;
    }
    const int count = static_cast<int>(std::min<int64_t>(kLanes, blocks - first));
    uint32_t* out = words + 4 * first;
    for (int i = 0; i < count; ++i) {
      out[4 * i] = c0[i];
      out[4 * i + 1] = c1[i];
      out[4 * i + 2] = c2[i];
      out[4 * i + 3] = c3[i];
    }
  }
  for (; first < blocks; ++first) {
    const auto block = Philox4x32(key, counter_high, counter_low + static_cast<uint64_t>(first));
    std::copy(block.begin(), block.end(), words + 4 * first);
  }
}

// FNV-1a spreads the name over 64 bits and Mix decorrelates neighbouring seeds; the added constant keeps seed 0 from
// mixing to 0. The key depends on nothing else, so it is stable between runs, processes and builds. Two names collide
// with probability about 2^-64.
uint64_t RandomKey(uint64_t seed, absl::string_view logical_name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char c : logical_name) hash = (hash ^ c) * 0x100000001b3ULL;
  return Mix(hash ^ Mix(seed + 0x9E3779B97F4A7C15ULL));
}

}  // namespace belfry
