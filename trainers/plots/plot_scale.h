// The axis of a plot.
#pragma once

#include <string>
#include <vector>

namespace belfry::trainers {

// Values from low to high, low < high; above 0 if logarithmic.
struct Scale {
  double low = 0, high = 1;
  bool logarithmic = false;

  // 0 for low, 1 for high; between 0 and 1 for whatever lies beyond.
  double Place(double value) const;
};

// Covers low to high, and a little more if they are equal. REQUIRES: finite, low <= high.
Scale ExactScale(double low, double high);
// The same, up to whole ticks.
Scale RoundScale(double low, double high);
// The same with a logarithmic axis. REQUIRES: 0 < low <= high.
Scale LogScale(double low, double high);

// Round values within the scale, ascending, about `count` of them; at least one.
std::vector<double> Ticks(const Scale& scale, int count);

// "0.25", "1500", "64k", "1.5M", "1e-05".
std::string TickText(double value);

}  // namespace belfry::trainers
