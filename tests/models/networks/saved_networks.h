// The bundled networks as they are evaluated, for tests of what models are saved and exported as.
#pragma once

#include <functional>
#include <ostream>
#include <vector>

#include "framework/graph/scope.h"
#include "framework/runtime/saved_model/saved_model.h"

namespace belfry::models {

struct Network {
  const char* name;
  struct Ends {
    std::vector<NamedOutput> inputs, outputs;
  };
  std::function<Ends(const Scope&)> build;
};
void PrintTo(const Network& network, std::ostream* out);

// Their inputs are float32 numbers and integers below 50, and open extents but the first at most 16.
const std::vector<Network>& BundledNetworks();

}  // namespace belfry::models
