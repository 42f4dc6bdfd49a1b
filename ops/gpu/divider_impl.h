// Division by a number that is fixed when a kernel is made. On a GPU a division takes tens of instructions, this one a
// multiplication and a shift.
#pragma once

#include <cstdint>

namespace belfry::ops {

// True if indices in [0, limit) fit the 32-bit arithmetic below.
constexpr bool CountsIn32Bits(int64_t limit) { return limit <= int64_t{1} << 31; }

class Divider {
 public:
  Divider() = default;  // divides by 1
  // Divides numbers in [0, limit). A divisor below 1 may be constructed but not used.
  Divider(int64_t divisor, int64_t limit) : divisor_(divisor), small_(CountsIn32Bits(limit)) {
    if (!small_ || divisor < 1) return;
    multiplier_ = 0;  // if no number reaches the divisor, all quotients are 0
    if (!CountsIn32Bits(divisor)) return;
    int bits = 0;  // the least with divisor <= 2^bits
    while ((int64_t{1} << bits) < divisor) ++bits;
    // With n < 2^31 and the multiplier 2^shift / divisor rounded up, which is below 2^32, the product fits into 64
    // bits, and its error is too small to reach the next integer (Granlund and Montgomery, 1994).
    shift_ = 31 + bits;
    multiplier_ = static_cast<uint32_t>(((uint64_t{1} << shift_) + static_cast<uint64_t>(divisor) - 1) /
                                        static_cast<uint64_t>(divisor));
  }

  constexpr int64_t divisor() const { return divisor_; }
  // n / divisor. Index is a 64-bit integer, or a 32-bit one, which is faster. REQUIRES for 32 bits:
  // CountsIn32Bits(limit).
  template <class Index>
  constexpr Index Quotient(Index n) const {
    if (sizeof(Index) == 4 || small_) {
      return static_cast<Index>(uint64_t{static_cast<uint32_t>(n)} * multiplier_ >> shift_);
    }
    return static_cast<Index>(static_cast<int64_t>(n) / divisor_);
  }
  // Replaces n by the quotient and returns the remainder.
  template <class Index>
  constexpr Index Split(Index& n) const {
    const Index quotient = Quotient(n), remainder = n - quotient * static_cast<Index>(divisor_);
    n = quotient;
    return remainder;
  }

 private:
  int64_t divisor_ = 1;
  uint32_t multiplier_ = uint32_t{1} << 31;
  int shift_ = 31;
  bool small_ = true;
};

}  // namespace belfry::ops
