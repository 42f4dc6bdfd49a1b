#include "framework/graph/op_def.h"
#include "ops/recurrent/recurrent_gpu_impl.h"
#include "ops/recurrent/recurrent_ops.h"

namespace belfry::ops {
namespace {

using recurrent::Parts;
using recurrent::Problem;
using recurrent::StepProduct;

// One step; `last_hidden` is the hidden state, of which `product` is the one with the weights.
template <class T>
struct LstmStep {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  Problem p;
  const S *projection, *initial;
  const C* product;
  S *y, *last_hidden, *last_cell;
  C* cells;
  S* gates;
  const int32_t* lengths;
  int64_t step;

  BELFRY_GPU void operator()(int64_t i) const {
    const int64_t batch = i / p.h, unit = i % p.h, at = p.At(batch, step), first = 4 * at + unit;
    const int64_t steps = p.Steps(lengths, batch);
    if (step >= steps) {
      for (int k = 0; k < 4; ++k) gates[first + k * p.h] = gpu::Narrow<T>(C(0));
      cells[at + unit] = 0;
      y[at + unit] = gpu::Narrow<T>(C(0));
      return;
    }
    C sums[4];
    for (int k = 0; k < 4; ++k) {
      sums[k] = gpu::Widen(projection[first + k * p.h]) + product[(4 * batch + k) * p.h + unit];
    }
    C before = 0;
    if (step > 0) {
      before = cells[at - p.h + unit];
    } else if (initial != nullptr) {
      before = gpu::Widen(initial[i]);
    }
    const C in = recurrent::Sigmoid(sums[0]), forget = recurrent::Sigmoid(sums[1]), candidate = std::tanh(sums[2]);
    const C out = recurrent::Sigmoid(sums[3]), cell = forget * before + in * candidate;
    gates[first] = gpu::Narrow<T>(in);
    gates[first + p.h] = gpu::Narrow<T>(forget);
    gates[first + 2 * p.h] = gpu::Narrow<T>(candidate);
    gates[first + 3 * p.h] = gpu::Narrow<T>(out);
    cells[at + unit] = cell;
    y[at + unit] = last_hidden[i] = gpu::Narrow<T>(out * std::tanh(cell));
    if (step == steps - 1) last_cell[i] = gpu::Narrow<T>(cell);
  }
};

template <class T>
absl::StatusOr<Kernel> MakeGpuLstm(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  const Problem p = recurrent::MakeProblem(spec);
  const recurrent::OptionalInputs optional = recurrent::InputsAfter(2, spec);
  const int64_t units = p.n * p.h;
  ASSIGN_OR_RETURN(const StepProduct<T> product, StepProduct<T>::Make(p, 4, /*backward=*/false, spec));
  return Kernel{[=](const KernelContext& at) {
                  Parts parts{static_cast<char*>(at.workspace) + product.workspace_bytes()};
                  auto* const sums = parts.Take<gpu::Compute<T>>(4 * units);
                  LstmStep<T> body{p,
                                   at.input<S>(0),
                                   optional.State<S>(at, 1),
                                   sums,
                                   at.output<S>(0),
                                   at.output<S>(1),
                                   at.output<S>(2),
                                   at.output<gpu::Compute<T>>(3),
                                   at.output<S>(4),
                                   optional.Lengths(at),
                                   0};
                  RETURN_IF_ERROR(recurrent::CopyOr0(*at.stream, optional.State<S>(at), units, body.last_hidden));
                  if (p.t == 0 || optional.lengths)
                    RETURN_IF_ERROR(recurrent::CopyOr0(*at.stream, body.initial, units, body.last_cell));
                  for (; body.step < p.t && units > 0; ++body.step) {
                    RETURN_IF_ERROR(product.Run(at, body.last_hidden, at.inputs[1], sums, at.workspace));
                    RETURN_IF_ERROR(gpu::ForEach(*at.stream, units, body));
                  }
                  return absl::OkStatus();
                },
                product.workspace_bytes() + Parts::Bytes<gpu::Compute<T>>(4 * units)};
}

// One step of the gradient. The gradient of the hidden state is `product`, that of the next step's slopes and the
// weights. Past the end of a sequence it is put into `kept`, which is null if there are no lengths.
template <class T>
struct LstmGradStep {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  Problem p;
  const S *gates, *initial, *dy;
  const C *product, *cells;
  C *dcell, *kept;
  S *dprojection, *slopes;
  const int32_t* lengths;
  int64_t step;

  BELFRY_GPU void operator()(int64_t i) const {
    const int64_t batch = i / p.h, unit = i % p.h, at = p.At(batch, step), first = 4 * at + unit;
    C dh = product[i];
    if (kept != nullptr) dh += kept[i];
    if (step >= p.Steps(lengths, batch)) {
      kept[i] = dh;
      for (int k = 0; k < 4; ++k) {
        dprojection[first + k * p.h] = slopes[(4 * batch + k) * p.h + unit] = gpu::Narrow<T>(C(0));
      }
      return;
    }
    if (kept != nullptr) kept[i] = 0;
    dh += gpu::Widen(dy[at + unit]);
    const C in = gpu::Widen(gates[first]), forget = gpu::Widen(gates[first + p.h]);
    const C candidate = gpu::Widen(gates[first + 2 * p.h]), out = gpu::Widen(gates[first + 3 * p.h]);
    C before = 0;
    if (step > 0) {
      before = cells[at - p.h + unit];
    } else if (initial != nullptr) {
      before = gpu::Widen(initial[i]);
    }
    const C squashed = std::tanh(cells[at + unit]);
    const C slope = dcell[i] + dh * out * (1 - squashed * squashed);
    const C of_sums[4] = {slope * candidate * in * (1 - in), slope * before * forget * (1 - forget),
                          slope * in * (1 - candidate * candidate), dh * squashed * out * (1 - out)};
    for (int k = 0; k < 4; ++k) {
      dprojection[first + k * p.h] = slopes[(4 * batch + k) * p.h + unit] = gpu::Narrow<T>(of_sums[k]);
    }
    dcell[i] = slope * forget;
  }
};

template <class T>
absl::StatusOr<Kernel> MakeGpuLstmGrad(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  using C = gpu::Compute<T>;
  const Problem p = recurrent::MakeProblem(spec);
  const recurrent::OptionalInputs optional = recurrent::InputsAfter(6, spec);
  const int64_t units = p.n * p.h;
  const int64_t kept_units = optional.lengths ? units : 0;
  ASSIGN_OR_RETURN(const StepProduct<T> product, StepProduct<T>::Make(p, 4, /*backward=*/true, spec));
  return Kernel{[=](const KernelContext& at) {
                  Parts parts{static_cast<char*>(at.workspace) + product.workspace_bytes()};
                  C *const dcell = parts.Take<C>(units), *const dhidden = parts.Take<C>(units);
                  C* const kept = optional.lengths ? parts.Take<C>(units) : nullptr;
                  S* const slopes = parts.Take<S>(4 * units);
                  RETURN_IF_ERROR(recurrent::WidenState<T>(*at.stream, units, at.input<S>(4), dhidden));
                  const size_t kept_bytes = static_cast<size_t>(kept_units) * sizeof(C);
                  if (optional.lengths) RETURN_IF_ERROR(gpu::SetBytes(*at.stream, kept, 0, kept_bytes));
                  RETURN_IF_ERROR(recurrent::WidenState<T>(*at.stream, units, at.input<S>(5), dcell));
                  LstmGradStep<T> body{p,
                                       at.input<S>(0),
                                       optional.State<S>(at),
                                       at.input<S>(3),
                                       dhidden,
                                       at.input<C>(2),
                                       dcell,
                                       kept,
                                       at.output<S>(0),
                                       slopes,
                                       optional.Lengths(at),
                                       p.t - 1};
                  for (; body.step >= 0 && units > 0; --body.step) {
                    RETURN_IF_ERROR(gpu::ForEach(*at.stream, units, body));
                    RETURN_IF_ERROR(product.Run(at, slopes, at.inputs[1], dhidden, at.workspace));
                  }
                  RETURN_IF_ERROR(recurrent::NarrowState<T>(*at.stream, units, dhidden, kept, at.output<S>(1)));
                  return recurrent::NarrowState<T>(*at.stream, units, dcell, nullptr, at.output<S>(2));
                },
                product.workspace_bytes() + 2 * Parts::Bytes<C>(units) + Parts::Bytes<C>(kept_units) +
                    Parts::Bytes<S>(4 * units)};
}

}  // namespace

void AddLstmGpuKernels(KernelTable& table) {
  for (const char* const name : {"Lstm", "LstmOfLengths"}) {
    table.AddKernels(name, Kernels<float, double, Half, BFloat16>(
                               "GPU", [](auto tag) { return &MakeGpuLstm<typename decltype(tag)::type>; }));
  }
  for (const char* const name : {"LstmGrad", "LstmOfLengthsGrad"}) {
    table.AddKernels(name, Kernels<float, double, Half, BFloat16>(
                               "GPU", [](auto tag) { return &MakeGpuLstmGrad<typename decltype(tag)::type>; }));
  }
}

}  // namespace belfry::ops
