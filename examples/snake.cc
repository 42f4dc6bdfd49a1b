#include "snake.h"

#include <cmath>
#include <vector>

#include "framework/base/parallel.h"
#include "ops/math.h"

using namespace belfry;

namespace {

// Called once, for known shapes; what it returns is called every step.
template <class T>
absl::StatusOr<Kernel> MakeSnake(const KernelSpec& spec) {
  const T frequency = static_cast<T>(spec.attrs.Float("frequency"));
  if (!(frequency > 0)) return absl::InvalidArgumentError("Snake needs a frequency above 0");
  const int64_t elements = spec.outputs[0].shape.elements();
  return Kernel{[=](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    ParallelFor(elements, /*cost=*/20, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T sine = std::sin(frequency * x[i]);
        y[i] = x[i] + sine * sine / frequency;
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> SnakeShape(const ShapeArgs& args) { return std::vector<Shape>{args.inputs[0]}; }

// dx = (1 + sin(2 frequency x)) dy
std::vector<Output> SnakeGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  const double frequency = node.attrs().Float("frequency");
  const Output sine = ops::Sin(scope, ops::Scale(scope, node.input(0), 2 * frequency));
  return {ops::Add(scope, dy[0], ops::Mul(scope, sine, dy[0]))};
}

}  // namespace

Output Snake(OpScope scope, Output x, double frequency) { return scope.Add("Snake", {x}, {{"frequency", frequency}}); }

void RegisterSnake(OpRegistry& registry) {
  registry.Add(
      {.name = "Snake",
       .inputs = {{.name = "x"}},
       .outputs = {{.name = "y"}},
       .types = {{"T", kWideFloatTypes}},
       .attrs = {{"frequency", 1.0}},
       .shape = SnakeShape,
       .gradient = SnakeGradient,
       .in_place = {{0, 0}},
       .kernels = Kernels<float, double>("CPU", [](auto tag) { return &MakeSnake<typename decltype(tag)::type>; })});
}
