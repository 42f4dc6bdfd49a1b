// Timing several programs in turn, so that what else the machine does falls on all of them alike.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace belfry::benchmarks {

using Clock = std::chrono::steady_clock;
inline double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

// One side of a comparison.
struct Side {
  std::string name;
  std::function<void()> step;
  double items_per_step = 1;     // images, steps
  std::vector<double> rates;     // items per second, one per round; filled in by RunPaired
  std::function<void()> finish;  // as of Rate
};

// Of at least one value.
double Median(std::vector<double> values);

// Calls of `step` a second, over about `seconds` or, if it takes longer, one call. `finish` waits for steps that return
// before they are done; null: there are none.
double Rate(const std::function<void()>& step, double seconds, const std::function<void()>& finish = nullptr);

// Warms every side up, then times them in turn, A B C A B C, `rounds` times, each for about `seconds`.
void RunPaired(std::vector<Side>& sides, int rounds, double seconds);

// The median over rounds of (rate of a in the round) / (rate of b in the round).
double MedianRatio(const Side& a, const Side& b);
// "name  median [slowest .. fastest] unit".
void PrintRates(const std::vector<Side>& sides, const std::string& unit);
// Processor, cores, compiler.
std::string MachineText();

}  // namespace belfry::benchmarks
