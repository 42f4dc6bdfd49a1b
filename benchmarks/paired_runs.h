// Timing several programs in turn, so that other load on the machine affects all of them alike.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace belfry::benchmarks {

using Clock = std::chrono::steady_clock;
inline double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

// One side of a comparison.
struct Side {
  std::string name;
  std::function<absl::Status()> step;
  double items_per_step = 1;                       // such as images or steps
  std::function<absl::Status()> finish = nullptr;  // as in Rate
  std::vector<double> rates = {};                  // items per second, one per round; filled in by RunPaired
};

// The median. REQUIRES: at least one value.
double Median(std::vector<double> values);

// Calls of `step` per second, over about `seconds`, or over one call if it takes longer. `finish` waits for steps that
// return before they are done; null if there are none. Errors: theirs.
absl::StatusOr<double> Rate(const std::function<absl::Status()>& step, double seconds,
                            const std::function<absl::Status()>& finish = nullptr);

// Warms up every side, then times them in turn, A B C A B C, for `rounds` rounds of about `seconds` each. Errors: those
// of the steps.
absl::Status RunPaired(std::vector<Side>& sides, int rounds, double seconds);

// By round: (a's rate) / (b's rate).
std::vector<double> Ratios(const Side& a, const Side& b);
// Their median.
double MedianRatio(const Side& a, const Side& b);
// Prints a line per side: "name  median [slowest .. fastest] unit".
void PrintRates(const std::vector<Side>& sides, const std::string& unit);

}  // namespace belfry::benchmarks
