// Belfry's side of the comparison of one layer with PyTorch (layer.py), of tensors that a formula gives both sides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/runtime/session.h"

namespace belfry::benchmarks {

// The graph of a layer. Its variables are set once, before anything is timed.
struct Layer {
  // Adds a variable of numbers from -1 to 1, times `scale`, that layer.py computes as well.
  Output Add(const Scope& scope, const Shape& shape, float scale = 1, DType dtype = DType::kFloat32);

  std::string name;
  std::vector<Output> xs = {};  // what --backward differentiates with respect to
  Output dy = {}, y = {};
  std::vector<Feed> feeds = {};
  std::vector<const Node*> assignments = {};
};

// The main function of a side whose layer `make` adds to a graph: with --serve it speaks the protocol of README.md;
// without it prints the layer's speed, and that of its kernels beside the limits of the machine.
int RunLayer(int argc, char** argv, absl::string_view usage,
             absl::FunctionRef<absl::StatusOr<Layer>(const Scope&)> make);

}  // namespace belfry::benchmarks
