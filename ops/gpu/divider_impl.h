// Division by a number that is known when a kernel is made. For device code, where a division costs tens of
// instructions, and this a multiplication and a shift.
#pragma once

#include <cstdint>

namespace belfry::ops {

class Divider {
 public:
  Divider() = default;
  // Of numbers in [0, limit). REQUIRES: divisor > 0.
  Divider(int64_t divisor, int64_t limit) : divisor_(divisor), small_(limit <= kSmall && divisor <= kSmall) {
    if (!small_) return;
    int bits = 0;  // the least with divisor <= 2^bits
    while ((int64_t{1} << bits) < divisor) ++bits;
    shift_ = 31 + bits;
    multiplier_ = static_cast<uint32_t>(((uint64_t{1} << shift_) + static_cast<uint64_t>(divisor) - 1) /
                                        static_cast<uint64_t>(divisor));
  }

  constexpr int64_t divisor() const { return divisor_; }
  constexpr int64_t Quotient(int64_t n) const {
    return small_ ? static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(n)) * multiplier_ >> shift_)
                  : n / divisor_;
  }
  // Makes n the quotient and returns the remainder.
  constexpr int64_t Split(int64_t& n) const {
    const int64_t quotient = Quotient(n), remainder = n - quotient * divisor_;
    n = quotient;
    return remainder;
  }

 private:
  // With n < 2^31 and a multiplier of 2^shift / divisor rounded up, which is below 2^32, the product fits and its error
  // is too small to reach the next integer (Granlund and Montgomery, 1994).
  static constexpr int64_t kSmall = int64_t{1} << 31;

  int64_t divisor_ = 1;
  uint32_t multiplier_ = uint32_t{1} << 31;
  int shift_ = 31;
  bool small_ = true;
};

}  // namespace belfry::ops
