#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "framework/base/philox.h"
#include "ops/activation/activation_ops.h"
#include "ops/activation/dropout_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/nn.h"

namespace belfry::ops {
namespace {

// Elements whose halves are drawn at a time: enough Philox blocks for long vectors.
constexpr int64_t kDraws = 1024;

// y = x scale where kept, for n elements of an example from element `first` on, whose halves are given.
template <class T>
void DropPiece(const DropoutMask& mask, uint64_t step, uint64_t example, int64_t first, const uint16_t* halves,
               const T* x, T* y, int64_t n) {
  using C = Compute<T>;
  const C scale = static_cast<C>(mask.scale);
  const auto high = static_cast<uint16_t>(mask.threshold.high);
  alignas(64) C buffer[kBlock], ties[kBlock];
  const C* from = Widened(x, buffer, n);
  C* to = Wide(y, buffer);
  uint16_t tied = 0;
#pragma omp simd reduction(| : tied)
  for (int64_t i = 0; i < n; ++i) tied |= static_cast<uint16_t>(halves[i] == high);
  if (tied != 0) std::copy_n(from, n, ties);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = halves[i] >= high ? from[i] * scale : C(0);
  for (int64_t i = 0; tied != 0 && i < n; ++i) {
    if (halves[i] == high)
      to[i] = KeepsTie(mask.threshold, mask.key, step, example, first + i) ? ties[i] * scale : C(0);
  }
  Narrowed(to, y, n);
}

template <class T>
void DropExample(const DropoutMask& mask, uint64_t step, uint64_t example, const T* x, T* y) {
  static_assert(std::endian::native == std::endian::little && kDraws % kDropoutsPerBlock == 0);
  alignas(64) uint32_t words[kDraws / 2];
  alignas(64) uint16_t halves[kDraws];
  for (int64_t first = 0; first < mask.size; first += kDraws) {
    const int64_t n = std::min(kDraws, mask.size - first);
    const int64_t blocks = (n + kDropoutsPerBlock - 1) / kDropoutsPerBlock;
    PhiloxBlocks(mask.key, step, (example << 32) + static_cast<uint64_t>(first / kDropoutsPerBlock), blocks, words);
    std::memcpy(halves, words, static_cast<size_t>(n) * sizeof(uint16_t));
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t at = first + i;
      DropPiece(mask, step, example, at, halves + i, x + at, y + at, std::min(kBlock, n - i));
    }
  }
}

template <class T>
absl::StatusOr<Kernel> MakeDropout(const KernelSpec& spec) {
  return Kernel{[mask = DropoutMask(spec)](const KernelContext& context) {
                  const T* x = context.input<T>(0);
                  T* y = context.output<T>(0);
                  const uint64_t step = mask.Step(context);
                  const int64_t first = mask.FirstExample(context);
                  ParallelFor(mask.examples, 4.0 * static_cast<double>(mask.size), [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      DropExample(mask, step, static_cast<uint64_t>(first + i), x + i * mask.size, y + i * mask.size);
                    }
                  });
                  return absl::OkStatus();
                },
                0, DropoutMask(spec).uses_run()};
}

absl::StatusOr<std::vector<Shape>> DropoutShape(const ShapeArgs& args) {
  if (const double rate = args.attrs.Float("rate"); !(rate >= 0 && rate < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rate, the fraction of elements to drop, must be in [0, 1), but is ", rate));
  }
  if (args.inputs.size() > 3) return absl::InvalidArgumentError("takes at most two counters: step and first example");
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    if (args.dtypes[i] == DType::kInt64 && args.inputs[i].rank() == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("counter ", i - 1, " must be a scalar, but has shape ", args.inputs[i].ToString()));
  }
  return std::vector<Shape>{args.inputs[0]};
}

// Dropout is linear in x, so its gradient is the same op with the same counters: the mask is drawn again instead of
// stored.
std::vector<Output> DropoutGradient(const Scope& scope, const Node& node, absl::Span<const Output> dy) {
  std::vector<Output> inputs(node.inputs().begin(), node.inputs().end());
  inputs[0] = dy[0];
  std::vector<Output> gradients(inputs.size());
  gradients[0] = scope.Add("Dropout", inputs, node.attrs());
  return gradients;
}

}  // namespace

Output Dropout(OpScope scope, Output x, double rate) {
  const Scope inner = scope.NameScope(scope.wanted_name().empty() ? "dropout" : scope.wanted_name());
  std::vector<Output> inputs = {x};
  for (const Output& counter : scope.random_counters()) inputs.push_back(counter);
  return inner.Add(
      "Dropout", inputs,
      {{"rate", rate}, {"seed", static_cast<int64_t>(scope.graph().seed())}, {"key", inner.random_path()}});
}

void RegisterDropout(OpRegistry& registry) {
  registry.Add({.name = "Dropout",
                .inputs = {{"x"}, {.name = "counters", .type = "int64", .list = true}},
                .outputs = {{"y"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"rate", 0.5}, {"seed", int64_t{0}}, {"key", std::string(), true}, {"per_step", true}},
                .shape = DropoutShape,
                .gradient = DropoutGradient,
                .stateful = true,  // without counters, each run draws new numbers
                .in_place = {{0, 0}},
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeDropout<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
