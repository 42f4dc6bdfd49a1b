// The order in which the values of towers are added up, wherever that is done: on one device, on several, in several
// processes, tower after tower, or row by row. There is one order, so that the sum has the same bits everywhere.
//
// It is the order in which a binary counter carries. Invariant: after the values [0, n) there wait, one for each bit of
// n, the sums of the values [k 2^l, (k + 1) 2^l) that these bits stand for, the largest first. So the next value makes
// a sum of its own, to which the last of those that wait are added, one for each digit that the counter carries; and at
// the end all that wait are added to the last. A device adds up its own subtree, and sends one sum.
#pragma once

#include <cstdint>

namespace belfry {

// Upper bounds on the sums that wait: one for each binary digit of a 64-bit index, and of a rank, which is an int.
inline constexpr int kMaxWaitingSums = 64, kMaxWaitingRanks = 31;

// The number of waiting sums that the one of value `index` is added to at once: the ones that `index` ends with.
constexpr int TreeCarries(uint64_t index) {
  int carries = 0;
  for (; index % 2 == 1; index /= 2) ++carries;
  return carries;
}

// The same as bits, where bit l is the waiting sum of 2^l values, and for the last of `count` values all that wait.
// They are added the lowest first.
constexpr uint64_t TreeMerges(uint64_t index, uint64_t count) {
  return index + 1 == count ? index : index & ~(index + 1);
}
// The bit of the sum that this makes; 0 for the last value, whose sum is the whole.
constexpr int64_t TreeLevel(uint64_t index, uint64_t count) { return index + 1 == count ? 0 : TreeCarries(index); }

// For sparse values in ascending order: true if the sums that end with values a < b are added to each
// other before value c comes, because it is in no subtree that has both.
constexpr bool AddsUpBefore(uint64_t a, uint64_t b, uint64_t c) {
  // True if the highest bit of b ^ c is not below that of a ^ b.
  const uint64_t low = a ^ b, high = b ^ c;
  return !(high < low && high < (high ^ low));
}

}  // namespace belfry
