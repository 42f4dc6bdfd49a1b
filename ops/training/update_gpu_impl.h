// What the update ops' kernels for GPUs share: one pass over the variable, its slots and the gradient. Only for .cu
// files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "framework/graph/op_def.h"
#include "ops/only_if.h"
#include "ops/training/rules.h"

namespace belfry::ops {

// The step and the learning rate are known on the GPU only, so each thread works out what follows from them. Where that
// takes powers or divisions of doubles, a thread updates several elements, each as far from the next as there are
// threads.
inline int64_t UpdateThreads(int64_t n, bool costly) {
  return costly ? std::min<int64_t>((n + 7) / 8, int64_t{1} << 18) : n;
}

template <class T, size_t slots>
struct UpdateData {
  gpu::Stored<T>* variable;
  gpu::Stored<T>* slot[slots == 0 ? 1 : slots];
  const gpu::Stored<T>* gradient;
  gpu::Compute<T> weight_decay;
  const bool* only_if;  // nothing is updated where it is false; null: always
};

template <class T, size_t slots, class Update>
BELFRY_GPU void UpdateElement(const UpdateData<T, slots>& data, const Update& update, int64_t i) {
  using C = gpu::Compute<T>;
  C v = gpu::Widen(data.variable[i]);
  const C g = gpu::Widen(data.gradient[i]) + data.weight_decay * v;
  if constexpr (slots == 0) {
    update(v, g);
  } else {
    C a = gpu::Widen(data.slot[0][i]);
    if constexpr (slots == 1) {
      update(v, a, g);
    } else {
      C b = gpu::Widen(data.slot[slots - 1][i]);
      update(v, a, b, g);
      data.slot[slots - 1][i] = gpu::Narrow<T>(b);
    }
    data.slot[0][i] = gpu::Narrow<T>(a);
  }
  data.variable[i] = gpu::Narrow<T>(v);
}

// Updates n elements; make() gives the update, is small and trivially copyable, and for device code.
template <class T, size_t slots, class Make>
absl::Status GpuUpdate(Stream& stream, int64_t n, bool costly, const UpdateData<T, slots>& data, const Make& make) {
  const int64_t threads = UpdateThreads(n, costly);
  return gpu::ForEach(stream, threads, [=] BELFRY_GPU(int64_t first) {
    if (data.only_if != nullptr && !*data.only_if) return;
    const auto update = make();
    for (int64_t i = first; i < n; i += threads) UpdateElement(data, update, i);
  });
}

// A rule, with where its scalars are; `step` may be null.
template <class Rule>
struct RuleAt {
  Rule rule;
  const float* learning_rate;
  const int64_t* step;
  BELFRY_GPU typename Rule::Update operator()() const {
    return rule.At(static_cast<double>(*learning_rate), step == nullptr ? 0 : *step);
  }
};

// The kernel of an element-wise rule (rules.h).
template <class T, class Rule>
absl::StatusOr<Kernel> MakeGpuUpdate(const KernelSpec& spec) {
  using S = gpu::Stored<T>;
  constexpr int kScalars = 1 + static_cast<int>(Rule::kSlots);
  constexpr int kRate = kScalars + (Rule::kStep ? 1 : 0);
  return Kernel{[rule = Rule(spec.attrs), n = spec.outputs[0].shape.elements(),
                 condition = Condition(spec, kRate + 2)](const KernelContext& at) {
    UpdateData<T, Rule::kSlots> data{};
    data.variable = at.ref<S>(0);
    for (int i = 0; i < static_cast<int>(Rule::kSlots); ++i) data.slot[i] = at.ref<S>(1 + i);
    data.gradient = at.input<S>(kRate + 1);
    data.weight_decay = static_cast<gpu::Compute<T>>(rule.weight_decay);
    data.only_if = condition.At(at);
    const RuleAt<Rule> make{rule, at.input<float>(kRate), Rule::kStep ? at.input<int64_t>(kScalars) : nullptr};
    return GpuUpdate(*at.stream, n, Rule::kStep, data, make);
  }};
}

// For Rule<C>, a template of what is computed in.
template <template <class> class Rule>
std::vector<KernelDef> GpuUpdateKernels() {
  return Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
    using T = typename decltype(tag)::type;
    return &MakeGpuUpdate<T, Rule<gpu::Compute<T>>>;
  });
}

}  // namespace belfry::ops
