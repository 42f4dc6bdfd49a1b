// The natural logarithm of an Eigen array.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "ops/elementwise/functors.h"

namespace belfry::ops::functor {

// Eigen's vectorised log takes subnormal numbers for the smallest normal one, so they are scaled into the normal range
// first. T is float or double.
template <class T>
struct ArrayLog {
  // The bits of a mantissa: scaled by 2^kShift, the smallest subnormal number is normal.
  static constexpr int kShift = std::numeric_limits<T>::digits;
  static constexpr T kScale = static_cast<T>(int64_t{1} << kShift);
  static constexpr T kLogScale = static_cast<T>(kShift * 0.693147180559945309417);

  T operator()(T x) const { return std::log(x); }
  template <class Packet>
  Packet packetOp(const Packet& x) const {
    using namespace Eigen::internal;
    const Packet small = pcmp_lt(x, pset1<Packet>(std::numeric_limits<T>::min()));
    if (!predux_any(small)) return plog(x);
    const Packet y = plog(pselect(small, pmul(x, pset1<Packet>(kScale)), x));
    return pselect(small, psub(y, pset1<Packet>(kLogScale)), y);
  }
};

}  // namespace belfry::ops::functor

template <class T>
struct Eigen::internal::functor_traits<belfry::ops::functor::ArrayLog<T>> {
  enum {
    Cost = functor_traits<scalar_log_op<T>>::Cost,
    PacketAccess = packet_traits<T>::HasLog,
  };
};
