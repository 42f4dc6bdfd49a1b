// The definition of update ops, and their single pass over memory.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/graph/op_def.h"
#include "ops/common/index_type_impl.h"
#include "ops/training.h"
#include "ops/training/rules.h"

namespace belfry::ops {

// Updates elements [0, n) of one thread. A plain loop, which the compiler vectorises. Every element is rounded alike
// regardless of its position, so results depend neither on threads nor on the layout of variables in memory.
template <class T, class Update>
void UpdateRange(int64_t n, UpdateMath<T> decay, T* __restrict v, std::array<T*, 0>, const T* __restrict g,
                 const Update& update) {
  using C = UpdateMath<T>;
  for (int64_t i = 0; i < n; ++i) {
    auto x = static_cast<C>(v[i]);
    update(x, static_cast<C>(g[i]) + decay * x);
    v[i] = static_cast<T>(x);
  }
}

template <class T, class Update>
void UpdateRange(int64_t n, UpdateMath<T> decay, T* __restrict v, std::array<T*, 1> slots, const T* __restrict g,
                 const Update& update) {
  using C = UpdateMath<T>;
  T* __restrict s = slots[0];
  for (int64_t i = 0; i < n; ++i) {
    auto x = static_cast<C>(v[i]), a = static_cast<C>(s[i]);
    update(x, a, static_cast<C>(g[i]) + decay * x);
    v[i] = static_cast<T>(x);
    s[i] = static_cast<T>(a);
  }
}

template <class T, class Update>
void UpdateRange(int64_t n, UpdateMath<T> decay, T* __restrict v, std::array<T*, 2> slots, const T* __restrict g,
                 const Update& update) {
  using C = UpdateMath<T>;
  T* __restrict s = slots[0], * __restrict r = slots[1];
  for (int64_t i = 0; i < n; ++i) {
    auto x = static_cast<C>(v[i]), a = static_cast<C>(s[i]), b = static_cast<C>(r[i]);
    update(x, a, b, static_cast<C>(g[i]) + decay * x);
    v[i] = static_cast<T>(x);
    s[i] = static_cast<T>(a);
    r[i] = static_cast<T>(b);
  }
}

// Calls update(variable, slot..., gradient) for every element, in UpdateMath<T>. It modifies the variable and its
// slots; weight_decay * variable has been added to the gradient.
template <class T, size_t slots, class Update>
void ForEachUpdate(int64_t n, double weight_decay, T* variable, const std::array<T*, slots>& slot, const T* gradient,
                   const Update& update) {
  ParallelFor(n, 2 + 2 * slots, [&](int64_t begin, int64_t end) {
    std::array<T*, slots> from = slot;
    for (T*& data : from) data += begin;
    UpdateRange<T>(end - begin, static_cast<UpdateMath<T>>(weight_decay), variable + begin, from, gradient + begin,
                   update);
  });
}

// Inputs of an update op: the variable, its slots, the step if any, the learning rate, the gradient. The output is the
// variable.
struct UpdateInputs {
  std::vector<std::string> slots;
  bool step = false;  // an int64 scalar between the slots and the learning rate
};

// Checks the attributes of update ops: decay rates lie in [0, 1), the others are finite and not negative.
absl::Status CheckRates(const Attrs& attrs);

OpDef UpdateOpDef(absl::string_view name, const UpdateInputs& inputs, std::vector<AttrDef> attrs,
                  std::vector<KernelDef> kernels);
// With a sparse gradient: rows [K, ...], indices [K].
OpDef SparseUpdateOpDef(absl::string_view name, const UpdateInputs& inputs, std::vector<AttrDef> attrs,
                        std::vector<KernelDef> kernels);

// The kernel of an element-wise rule (rules.h).
template <class T, class Rule>
absl::StatusOr<Kernel> MakeUpdate(const KernelSpec& spec) {
  return Kernel{[rule = Rule(spec.attrs), n = spec.outputs[0].shape.elements()](const KernelContext& context) {
    constexpr int kScalars = 1 + static_cast<int>(Rule::kSlots);
    constexpr int kRate = kScalars + (Rule::kStep ? 1 : 0);
    const int64_t step = Rule::kStep ? context.input<int64_t>(kScalars)[0] : 0;
    const double learning_rate = context.input<float>(kRate)[0];
    std::array<T*, Rule::kSlots> slots;
    for (size_t i = 0; i < Rule::kSlots; ++i) slots[i] = context.ref<T>(1 + static_cast<int>(i));
    ForEachUpdate<T>(n, rule.weight_decay, context.ref<T>(0), slots, context.input<T>(kRate + 1),
                     rule.At(learning_rate, step));
    return absl::OkStatus();
  }};
}

// The rows of a sparse gradient.
struct UpdateRows {
  int64_t count = 0, width = 0;  // K, and the elements of a row
  int64_t rows = 0;              // of the variable
};
UpdateRows RowsOf(const KernelSpec& spec, size_t gradient);
absl::Status CheckRow(int64_t index, int64_t position, const UpdateRows& rows);

// Updates the rows of the variable and its slots that the indices name.
template <class T, class Index, size_t slots, class Update>
absl::Status ForEachRow(const UpdateRows& rows, const Index* indices, double weight_decay, T* variable,
                        const std::array<T*, slots>& slot, const T* gradient, const Update& update) {
  for (int64_t k = 0; k < rows.count; ++k) RETURN_IF_ERROR(CheckRow(indices[k], k, rows));
  const auto cost = static_cast<double>((2 + 2 * slots) * rows.width);
  ParallelFor(rows.count, cost, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      if (indices[k] < 0) continue;
      const int64_t at = static_cast<int64_t>(indices[k]) * rows.width;
      std::array<T*, slots> from = slot;
      for (T*& data : from) data += at;
      UpdateRange<T>(rows.width, static_cast<UpdateMath<T>>(weight_decay), variable + at, from,
                     gradient + k * rows.width, update);
    }
  });
  return absl::OkStatus();
}

// The kernel of an element-wise rule for a sparse gradient.
template <class T, class Rule>
absl::StatusOr<Kernel> MakeSparseUpdate(const KernelSpec& spec) {
  constexpr int kScalars = 1 + static_cast<int>(Rule::kSlots);
  constexpr int kRate = kScalars + (Rule::kStep ? 1 : 0);
  return Kernel{[rule = Rule(spec.attrs), rows = RowsOf(spec, kRate + 1),
                 index_type = spec.inputs[kRate + 2].dtype](const KernelContext& context) {
    const int64_t step = Rule::kStep ? context.input<int64_t>(kScalars)[0] : 0;
    const auto update = rule.At(context.input<float>(kRate)[0], step);
    std::array<T*, Rule::kSlots> slots;
    for (size_t i = 0; i < Rule::kSlots; ++i) slots[i] = context.ref<T>(1 + static_cast<int>(i));
    const auto run = [&](const auto* indices) {
      return ForEachRow(rows, indices, rule.weight_decay, context.ref<T>(0), slots, context.input<T>(kRate + 1),
                        update);
    };
    return WithIndexType(index_type, [&](auto index) { return run(context.input<decltype(index)>(kRate + 2)); });
  }};
}

// Adds the op of an element-wise Rule<C>, where C is the type of the computation, and "Sparse" + name.
template <template <class> class Rule>
void AddUpdateOps(OpRegistry& registry, const std::string& name, const UpdateInputs& inputs,
                  const std::vector<AttrDef>& attrs) {
  registry.Add(UpdateOpDef(name, inputs, attrs, Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) {
                             using T = typename decltype(tag)::type;
                             return &MakeUpdate<T, Rule<UpdateMath<T>>>;
                           })));
  registry.Add(
      SparseUpdateOpDef("Sparse" + name, inputs, attrs, Kernels<float, double, Half, BFloat16>("CPU", [](auto tag) {
                          using T = typename decltype(tag)::type;
                          return &MakeSparseUpdate<T, Rule<UpdateMath<T>>>;
                        })));
}

// Adds the node of an update by either kind of gradient. `inputs`: those before the gradient.
Output AddUpdate(const Scope& scope, const std::string& name, std::vector<Output> inputs, const Gradient& gradient,
                 Attrs attrs);

}  // namespace belfry::ops
