// Updates of variables on GPUs: of an element of the variable and of its slots, and of the rows of a sparse gradient.
// Only for .cu files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "framework/device/cuda/launch.h"
#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"
#include "ops/common/index_type_impl.h"
#include "ops/gpu/divider_impl.h"
#include "ops/only_if.h"
#include "ops/training/rules.h"

namespace belfry::ops {

// Number of threads for n elements. The step and the learning rate are known only on the GPU, so each thread derives
// its own constants. If that takes powers or divisions of doubles, each thread updates several elements, spaced by the
// number of threads.
inline int64_t UpdateThreads(int64_t n, bool costly) {
  return costly ? std::min<int64_t>((n + 7) / 8, int64_t{1} << 18) : n;
}

template <class T, size_t slots>
struct UpdateData {
  gpu::Stored<T>* variable;
  gpu::Stored<T>* slot[slots == 0 ? 1 : slots];
  const gpu::Stored<T>* gradient;
  gpu::Compute<T> weight_decay;
  const bool* only_if;  // updates only if true; null: always
  const float* learning_rate;
  const int64_t* step;  // null if the update does not depend on it
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

template <class Rule>
struct RuleAt {
  Rule rule;
  template <class Data>
  BELFRY_GPU typename Rule::Update operator()(const Data& data) const {
    return rule.At(static_cast<double>(*data.learning_rate), data.step == nullptr ? 0 : *data.step);
  }
};

// An update by a rule (rules.h) with a sparse gradient.
template <class T, class Rule>
class RuleUpdate {
 public:
  static constexpr size_t kSlots = Rule::kSlots;
  static constexpr int kStep = 1 + static_cast<int>(Rule::kSlots);  // indices of inputs
  static constexpr int kRate = kStep + (Rule::kStep ? 1 : 0);
  explicit RuleUpdate(const KernelSpec& spec) : rule_(spec.attrs), condition_(spec, kRate + 3) {}

  UpdateData<T, kSlots> Data(const KernelContext& at) const {
    using S = gpu::Stored<T>;
    UpdateData<T, kSlots> data{};
    data.variable = at.ref<S>(0);
    for (int i = 0; i < static_cast<int>(kSlots); ++i) data.slot[i] = at.ref<S>(1 + i);
    data.gradient = at.input<S>(kRate + 1);
    data.weight_decay = static_cast<gpu::Compute<T>>(rule_.weight_decay);
    data.only_if = condition_.At(at);
    data.learning_rate = at.input<float>(kRate);
    data.step = Rule::kStep ? at.input<int64_t>(kStep) : nullptr;
    return data;
  }
  RuleAt<Rule> Make() const { return {rule_}; }

 private:
  Rule rule_;
  Condition condition_;
};

// The rows of a sparse gradient: a thread for each of some elements.
template <class T, size_t slots, class Index, class Make>
absl::Status GpuSparseUpdate(Stream& stream, int64_t count, int64_t width, int64_t rows, bool costly,
                             const Index* indices, const UpdateData<T, slots>& data, const Make& make) {
  const int64_t n = count * width, threads = UpdateThreads(n, costly);
  const Divider by_width(width, n);
  return gpu::ForEach(stream, threads, [=] BELFRY_GPU(int64_t first) {
    if (data.only_if != nullptr && !*data.only_if) return;
    const auto update = make(data);
    for (int64_t i = first; i < n; i += threads) {
      int64_t k = i;
      const int64_t column = by_width.Split(k);
      const auto row = static_cast<int64_t>(indices[k]);
      if (row < 0 || row >= rows) continue;
      UpdateData<T, slots> at = data;
      at.gradient += (k - row) * width;
      UpdateElement(at, update, row * width + column);
    }
  });
}

template <class T, class Rule>
absl::StatusOr<Kernel> MakeGpuSparseUpdate(const KernelSpec& spec) {
  using Op = RuleUpdate<T, Rule>;
  const Shape& gradient = spec.inputs[Op::kRate + 1].shape;
  const int64_t count = gradient[0], width = gradient.elements(1, gradient.rank()), rows = spec.inputs[0].shape[0];
  if (count * width == 0) return NothingToDo();
  const DType index_type = spec.inputs[Op::kRate + 2].dtype;
  return Kernel{[op = Op(spec), count, width, rows, index_type](const KernelContext& at) {
    const auto run = [&](const auto* indices) {
      return GpuSparseUpdate<T, Op::kSlots>(*at.stream, count, width, rows, Rule::kStep, indices, op.Data(at),
                                            op.Make());
    };
    return WithIndexType(index_type, [&](auto index) { return run(at.input<decltype(index)>(Op::kRate + 2)); });
  }};
}

// Adds the kernels of an op that updates by Rule<C>, where C is the type of the computation, with sparse gradients.
template <template <class> class Rule>
void AddSparseUpdateGpuKernels(KernelTable& table, absl::string_view op) {
  table.AddKernels(op, Kernels<float, double, Half, BFloat16>("GPU", [](auto tag) {
                     using T = typename decltype(tag)::type;
                     return &MakeGpuSparseUpdate<T, Rule<gpu::Compute<T>>>;
                   }));
}

}  // namespace belfry::ops
