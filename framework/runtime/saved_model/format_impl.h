// The names in the description of a saved model (docs/saved_models.md). Internal to the files that include it.
#pragma once

#include <cmath>
#include <limits>

namespace belfry {

inline constexpr int kSavedModelVersion = 1;
inline constexpr char kSavedModelKey[] = "belfry.model";  // in the metadata of the file

// JSON has no numbers for these.
inline constexpr struct {
  const char* text;
  double value;
} kNotInJson[] = {{"inf", std::numeric_limits<double>::infinity()},
                  {"-inf", -std::numeric_limits<double>::infinity()},
                  {"nan", std::numeric_limits<double>::quiet_NaN()}};

}  // namespace belfry
