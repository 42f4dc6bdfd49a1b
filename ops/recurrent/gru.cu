#include "framework/graph/op_def.h"
#include "ops/recurrent/recurrent_gpu_impl.h"
#include "ops/recurrent/recurrent_ops.h"

namespace belfry::ops {
namespace {

using recurrent::Parts;
using recurrent::Problem;
using recurrent::StepProduct;

// One step; `last` is the hidden state, of which `product` is the one with the weights.
template <class T>
struct GruStep {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  Problem p;
  const S *projection, *biases;
  const C* product;
  S *y, *last, *gates, *candidates;
  const int32_t* lengths;
  int64_t step;

  BELFRY_GPU void operator()(int64_t i) const {
    const int64_t batch = i / p.h, unit = i % p.h, at = p.At(batch, step), first = 3 * at + unit;
    if (step >= p.Steps(lengths, batch)) {
      for (int k = 0; k < 3; ++k) gates[first + k * p.h] = gpu::Narrow<T>(C(0));
      candidates[at + unit] = y[at + unit] = gpu::Narrow<T>(C(0));
      return;
    }
    C projected[3], sums[3];
    for (int k = 0; k < 3; ++k) {
      projected[k] = gpu::Widen(projection[first + k * p.h]);
      sums[k] = product[(3 * batch + k) * p.h + unit] + gpu::Widen(biases[k * p.h + unit]);
    }
    const C reset = recurrent::Sigmoid(projected[0] + sums[0]), keep = recurrent::Sigmoid(projected[1] + sums[1]);
    const C candidate = std::tanh(projected[2] + reset * sums[2]);
    gates[first] = gpu::Narrow<T>(reset);
    gates[first + p.h] = gpu::Narrow<T>(keep);
    gates[first + 2 * p.h] = gpu::Narrow<T>(candidate);
    candidates[at + unit] = gpu::Narrow<T>(sums[2]);
    y[at + unit] = last[i] = gpu::Narrow<T>(candidate + keep * (gpu::Widen(last[i]) - candidate));
  }
};

template <class T>
absl::StatusOr<Kernel> MakeGpuGru(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const Problem p = recurrent::MakeProblem(spec);
  const recurrent::OptionalInputs optional = recurrent::InputsAfter(3, spec);
  const int64_t units = p.n * p.h;
  ASSIGN_OR_RETURN(const StepProduct<T> product, StepProduct<T>::Make(p, 3, /*backward=*/false, spec));
  return Kernel{[=](const KernelContext& at) {
                  Parts parts{static_cast<char*>(at.workspace) + product.workspace_bytes()};
                  auto* const sums = parts.Take<gpu::Compute<T>>(3 * units);
                  GruStep<T> body{p,
                                  at.input<S>(0),
                                  at.input<S>(2),
                                  sums,
                                  at.output<S>(0),
                                  at.output<S>(1),
                                  at.output<S>(2),
                                  at.output<S>(3),
                                  optional.Lengths(at),
                                  0};
                  RETURN_IF_ERROR(recurrent::CopyOr0(*at.stream, optional.State<S>(at), units, body.last));
                  for (; body.step < p.t && units > 0; ++body.step) {
                    RETURN_IF_ERROR(product.Run(at, body.last, at.inputs[1], sums, at.workspace));
                    RETURN_IF_ERROR(gpu::ForEach(*at.stream, units, body));
                  }
                  return absl::OkStatus();
                },
                product.workspace_bytes() + Parts::Bytes<gpu::Compute<T>>(3 * units)};
}

// One step of the gradient. The gradient of the hidden state is `product`, that of the next step's slopes and the
// weights, plus `kept`, which skips the weights.
template <class T>
struct GruGradStep {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  Problem p;
  const S *gates, *candidates, *y, *initial, *dy;
  const C* product;
  C* kept;
  S *dprojection, *dproducts, *slopes;
  const int32_t* lengths;
  int64_t step;

  BELFRY_GPU void operator()(int64_t i) const {
    const int64_t batch = i / p.h, unit = i % p.h, at = p.At(batch, step), first = 3 * at + unit;
    if (step >= p.Steps(lengths, batch)) {
      kept[i] += product[i];
      for (int k = 0; k < 3; ++k) {
        const S zero = gpu::Narrow<T>(C(0));
        dproducts[first + k * p.h] = slopes[(3 * batch + k) * p.h + unit] = dprojection[first + k * p.h] = zero;
      }
      return;
    }
    const C reset = gpu::Widen(gates[first]), keep = gpu::Widen(gates[first + p.h]);
    const C candidate = gpu::Widen(gates[first + 2 * p.h]);
    C before = 0;
    if (step > 0) {
      before = gpu::Widen(y[at - p.h + unit]);
    } else if (initial != nullptr) {
      before = gpu::Widen(initial[i]);
    }
    const C dh = product[i] + kept[i] + gpu::Widen(dy[at + unit]);
    const C dcandidate = dh * (1 - keep) * (1 - candidate * candidate);
    const C of_sums[3] = {dcandidate * gpu::Widen(candidates[at + unit]) * reset * (1 - reset),
                          dh * (before - candidate) * keep * (1 - keep), dcandidate * reset};
    for (int k = 0; k < 3; ++k) {
      const S slope = gpu::Narrow<T>(of_sums[k]);
      dproducts[first + k * p.h] = slopes[(3 * batch + k) * p.h + unit] = slope;
      dprojection[first + k * p.h] = k == 2 ? gpu::Narrow<T>(dcandidate) : slope;
    }
    kept[i] = dh * keep;
  }
};

template <class T>
absl::StatusOr<Kernel> MakeGpuGruGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const Problem p = recurrent::MakeProblem(spec);
  const recurrent::OptionalInputs optional = recurrent::InputsAfter(6, spec);
  const int64_t units = p.n * p.h;
  ASSIGN_OR_RETURN(const StepProduct<T> product, StepProduct<T>::Make(p, 3, /*backward=*/true, spec));
  return Kernel{
      [=](const KernelContext& at) {
        Parts parts{static_cast<char*>(at.workspace) + product.workspace_bytes()};
        C *const kept = parts.Take<C>(units), *const dhidden = parts.Take<C>(units);
        S* const slopes = parts.Take<S>(3 * units);
        RETURN_IF_ERROR(recurrent::WidenState<T>(*at.stream, units, at.input<S>(5), dhidden));
        RETURN_IF_ERROR(gpu::SetBytes(*at.stream, kept, 0, static_cast<size_t>(units) * sizeof(C)));
        GruGradStep<T> body{
            p,    at.input<S>(0),  at.input<S>(2),  at.input<S>(3), optional.State<S>(at), at.input<S>(4), dhidden,
            kept, at.output<S>(0), at.output<S>(2), slopes,         optional.Lengths(at),  p.t - 1};
        for (; body.step >= 0 && units > 0; --body.step) {
          RETURN_IF_ERROR(gpu::ForEach(*at.stream, units, body));
          RETURN_IF_ERROR(product.Run(at, slopes, at.inputs[1], dhidden, at.workspace));
        }
        return recurrent::NarrowState<T>(*at.stream, units, dhidden, kept, at.output<S>(1));
      },
      product.workspace_bytes() + 2 * Parts::Bytes<C>(units) + Parts::Bytes<S>(3 * units)};
}

}  // namespace

void AddGruGpuKernels(KernelTable& table) {
  for (const char* const name : {"Gru", "GruOfLengths"}) {
    table.AddKernels(name, Kernels<float, double, Half, BFloat16>(
                               "GPU", [](auto tag) { return &MakeGpuGru<typename decltype(tag)::type>; }));
  }
  for (const char* const name : {"GruGrad", "GruOfLengthsGrad"}) {
    table.AddKernels(name, Kernels<float, double, Half, BFloat16>(
                               "GPU", [](auto tag) { return &MakeGpuGruGrad<typename decltype(tag)::type>; }));
  }
}

}  // namespace belfry::ops
