#include <cmath>

#include "ops/training.h"
#include "ops/training/training_ops.h"
#include "ops/training/update_impl.h"

namespace belfry::ops {
namespace {

// Norms are summed in chunks of this many elements whatever the number of threads, so that they do not depend on it.
constexpr int64_t kNormChunk = 4096;

int64_t NormChunks(int64_t n) { return (n + kNormChunk - 1) / kNormChunk; }

template <class T>
double SquaredNorm(const T* data, int64_t count) {
  const Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> x(data, count);
  return static_cast<double>(x.template cast<UpdateMath<T>>().square().sum());
}

struct Norms {
  double variable, gradient;
};

// `partial` has room for two sums per chunk.
template <class T>
Norms ComputeNorms(const T* variable, const T* gradient, int64_t n, double* partial) {
  ParallelFor(NormChunks(n), 4 * kNormChunk, [=](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kNormChunk, count = std::min(kNormChunk, n - first);
      partial[2 * chunk] = SquaredNorm(variable + first, count);
      partial[2 * chunk + 1] = SquaredNorm(gradient + first, count);
    }
  });
  Norms squares{0, 0};
  for (int64_t chunk = 0; chunk < NormChunks(n); ++chunk) {
    squares.variable += partial[2 * chunk];
    squares.gradient += partial[2 * chunk + 1];
  }
  return {std::sqrt(squares.variable), std::sqrt(squares.gradient)};
}

struct LarsRule {
  double momentum, trust_coefficient, epsilon, weight_decay;
  bool adapt;

  double Trust(const Norms& norms) const {
    if (norms.variable == 0 || norms.gradient == 0) return 1;
    return trust_coefficient * norms.variable / (norms.gradient + weight_decay * norms.variable + epsilon);
  }
};

template <class T>
absl::StatusOr<Kernel> MakeLars(const KernelSpec& spec) {
  using C = UpdateMath<T>;
  const LarsRule rule{spec.attrs.Float("momentum"), spec.attrs.Float("trust_coefficient"), spec.attrs.Float("epsilon"),
                      spec.attrs.Float("weight_decay"), spec.attrs.Bool("adapt")};
  const int64_t n = spec.outputs[0].shape.elements();
  const auto run = [rule, n](const KernelContext& context) {
    T* variable = context.ref<T>(0);
    const T* gradient = context.input<T>(3);
    double rate = context.input<float>(2)[0];
    if (rule.adapt) rate *= rule.Trust(ComputeNorms(variable, gradient, n, static_cast<double*>(context.workspace)));
    ForEachUpdate<T>(n, rule.weight_decay, variable, std::array{context.ref<T>(1)}, gradient,
                     [rate = static_cast<C>(rate), momentum = static_cast<C>(rule.momentum)](C& v, C& a, C g) {
                       a = momentum * a + rate * g;
                       v -= a;
                     });
    return absl::OkStatus();
  };
  return Kernel{run, rule.adapt ? 2 * sizeof(double) * static_cast<size_t>(NormChunks(n)) : 0};
}

}  // namespace

Output ApplyLars(OpScope scope, const Variable& variable, const Variable& accumulator, Output learning_rate,
                 Output gradient, const LarsAttrs& attrs) {
  return scope.Add("ApplyLars", {variable, accumulator, learning_rate, gradient},
                   {{"momentum", attrs.momentum},
                    {"trust_coefficient", attrs.trust_coefficient},
                    {"epsilon", attrs.epsilon},
                    {"weight_decay", attrs.weight_decay},
                    {"adapt", attrs.adapt}});
}

void RegisterLarsOps(OpRegistry& registry) {
  registry.Add(UpdateOpDef(
      "ApplyLars", {.slots = {"accumulator"}},
      {{"momentum", 0.9}, {"trust_coefficient", 0.001}, {"epsilon", 0.0}, {"adapt", true}},
      Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) { return &MakeLars<typename decltype(tag)::type>; })));
}

}  // namespace belfry::ops
