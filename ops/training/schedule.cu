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

constexpr int64_t kMaxPoints = 64;

template <class Real>
struct PiecewiseCurve {
  int64_t steps[kMaxPoints];  // the boundaries
  Real values[kMaxPoints + 1];
  int64_t count;
  constexpr Real operator()(int64_t step, Real) const { return PiecewiseAt(steps, values, count, step); }
};

template <class Real>
struct InterpolatedCurve {
  int64_t steps[kMaxPoints];
  Real values[kMaxPoints];
  int64_t count;
  constexpr Real operator()(int64_t step, Real) const { return InterpolatedAt(steps, values, count, step); }
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

// A curve through points whose steps are the attribute `name`.
template <class Curve>
absl::StatusOr<Kernel> MakeFromPoints(const KernelSpec& spec, absl::string_view name) {
  const std::vector<int64_t>& steps = spec.attrs.Ints(name);
  const std::vector<double> values = spec.attrs.Get<Tensor>("values").ToDoubles();
  Curve curve{};
  curve.count = static_cast<int64_t>(steps.size());
  if (curve.count > kMaxPoints) {
    return absl::UnimplementedError(absl::StrCat("a rate with ", curve.count, " ", name,
                                                 " is not supported on a GPU (at most ", kMaxPoints,
                                                 "); place it on a CPU"));
  }
  std::copy(steps.begin(), steps.end(), curve.steps);
  std::copy(values.begin(), values.end(), curve.values);
  return RateKernel(spec, curve);
}

absl::StatusOr<Kernel> MakePiecewise(const KernelSpec& spec) {
  return MakeFromPoints<PiecewiseCurve<double>>(spec, "boundaries");
}
absl::StatusOr<Kernel> MakeInterpolated(const KernelSpec& spec) {
  return MakeFromPoints<InterpolatedCurve<double>>(spec, "steps");
}

}  // namespace

void AddScheduleGpuKernels(KernelTable& table) {
  const auto add = [&](absl::string_view op, KernelFactory make) {
    table.AddKernels(op, {{"GPU", DType::kInt64, std::move(make)}});
  };
  add("PiecewiseRate", &MakePiecewise);
  add("InterpolatedRate", &MakeInterpolated);
  add("ExponentialRate", &MakeRate<ExponentialCurve>);
  add("PolynomialRate", &MakeRate<PolynomialCurve>);
  add("RampRate", &MakeRate<RampCurve>);
  add("CosineRate", &MakeRate<CosineCurve>);
  add("WarmUpRate", &MakeRate<WarmUpCurve>);
}

}  // namespace belfry::ops
