#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/training/curves.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

template <class Real>
struct PiecewiseCurve {
  static constexpr int64_t kMax = 64;
  int64_t boundaries[kMax];
  Real values[kMax + 1];
  int64_t count;
  constexpr Real operator()(int64_t step, Real) const { return PiecewiseAt(boundaries, values, count, step); }
};

// `below` is the rate that the curve scales, or null.
template <class Curve>
absl::Status Evaluate(Stream& stream, const Curve& curve, const int64_t* step, const float* below, float* rate) {
  return gpu::ForEach(stream, 1, [=] BELFRY_GPU(int64_t) {
    *rate = static_cast<float>(curve(*step, below == nullptr ? 0.0 : static_cast<double>(*below)));
  });
}

template <class Curve>
Kernel RateKernel(const KernelSpec& spec, const Curve& curve) {
  return Kernel{[curve, scales = spec.inputs.size() > 1](const KernelContext& at) {
    return Evaluate(*at.stream, curve, at.input<int64_t>(0), scales ? at.input<float>(1) : nullptr,
                    at.output<float>(0));
  }};
}

template <template <class> class Curve>
absl::StatusOr<Kernel> MakeRate(const KernelSpec& spec) {
  return RateKernel(spec, Curve<double>(spec.attrs));
}

absl::StatusOr<Kernel> MakePiecewise(const KernelSpec& spec) {
  using Curve = PiecewiseCurve<double>;
  const std::vector<int64_t>& boundaries = spec.attrs.Ints("boundaries");
  const std::vector<double> values = spec.attrs.Get<Tensor>("values").ToDoubles();
  Curve curve{};
  curve.count = static_cast<int64_t>(boundaries.size());
  if (curve.count > Curve::kMax) {
    return absl::UnimplementedError(absl::StrCat("a piecewise rate with ", curve.count,
                                                 " boundaries is not supported on a GPU (at most ", Curve::kMax,
                                                 "); place it on a CPU"));
  }
  std::copy(boundaries.begin(), boundaries.end(), curve.boundaries);
  std::copy(values.begin(), values.end(), curve.values);
  return RateKernel(spec, curve);
}

}  // namespace

void AddScheduleGpuKernels(KernelTable& table) {
  const auto add = [&](absl::string_view op, KernelFactory make) {
    table.AddKernels(op, {{"GPU", DType::kInt64, std::move(make)}});
  };
  add("PiecewiseRate", &MakePiecewise);
  add("ExponentialRate", &MakeRate<ExponentialCurve>);
  add("PolynomialRate", &MakeRate<PolynomialCurve>);
  add("CosineRate", &MakeRate<CosineCurve>);
  add("WarmUpRate", &MakeRate<WarmUpCurve>);
}

}  // namespace belfry::ops
