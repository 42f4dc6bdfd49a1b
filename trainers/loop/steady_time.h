// Time that only goes forward, for durations: the wall clock may be set while a program runs.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace belfry::trainers {

// Since an arbitrary moment. Thread-safe.
inline absl::Duration SteadyNow() { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }

}  // namespace belfry::trainers
