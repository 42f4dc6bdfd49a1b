#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/tensor.h"
#include "ops/common/op_rules_impl.h"
#include "ops/training/norm_impl.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

absl::StatusOr<std::vector<Shape>> SumShape(const ShapeArgs& args) {
  const Tensor& factors = args.attrs.Get<Tensor>("factors");
  if (factors.dtype() == DType::kFloat64 && factors.elements() == static_cast<int64_t>(args.inputs.size())) {
    return std::vector<Shape>{Shape()};
  }
  return absl::InvalidArgumentError(absl::StrCat("'factors' must be ", args.inputs.size(), " numbers of float64, not ",
                                                 factors.elements(), " of ", DTypeName(factors.dtype())));
}

template <class T>
absl::StatusOr<Kernel> MakeL2Losses(const KernelSpec& spec) {
  std::vector<int64_t> sizes;
  int64_t chunks = 0;
  for (const TensorSpec& input : spec.inputs) {
    sizes.push_back(input.shape.elements());
    chunks = std::max(chunks, NormChunks(sizes.back()));
  }
  const auto run = [sizes, factors = L2Factors(spec)](const KernelContext& at) {
    double sum = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      sum += factors[i] *
             SquaredNorm(at.input<T>(static_cast<int>(i)), sizes[i], static_cast<double*>(at.workspace), Unscaled());
    }
    at.output<T>(0)[0] = static_cast<T>(sum);
    return absl::OkStatus();
  };
  return Kernel{run, sizeof(double) * static_cast<size_t>(chunks)};
}

}  // namespace

std::vector<double> L2Factors(const KernelSpec& spec) {
  std::vector<double> factors = spec.attrs.Get<Tensor>("factors").ToDoubles();
  for (double& factor : factors) factor /= 2;
  return factors;
}

void RegisterL2Losses(OpRegistry& registry) {
  registry.Add({.name = "L2Losses",
                .inputs = {{.name = "x"}, {.name = "more", .list = true}},
                .outputs = {{.name = "sum"}},
                .types = {{"T", kFloatTypes}},
                .attrs = {{"factors", Tensor(), true}},
                .shape = SumShape,
                .gradient = NoGradient(kByThePass),
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeL2Losses<typename decltype(tag)::type>; })});
}

}  // namespace belfry::ops
