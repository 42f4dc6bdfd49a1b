// The clock of durations and deadlines. The wall clock (absl::Now) may be set while a program runs: it is for dates
// only.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace belfry {

// A moment of std::chrono::steady_clock, whose epoch is arbitrary: meaningful only in relation to another moment of
// this clock on the same machine. Every deadline in Belfry's interfaces is such a moment, or absl::InfiniteFuture().
// Thread-safe.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace belfry
