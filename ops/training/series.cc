#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "framework/base/half.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/collective/tower_tree.h"
#include "ops/array.h"
#include "ops/common/compute_impl.h"
#include "ops/common/op_rules_impl.h"
#include "ops/training.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

absl::Status CheckRowOf(const Shape& variable, const Shape& value, const Shape& index) {
  if (variable.rank() > 0 && variable.Remove(0).CompatibleWith(value) && index.rank() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the variable has shape ", variable.ToString(), ", the value ",
                                                 value.ToString(), " and the index ", index.ToString(),
                                                 "; expected [N, ...], [...] and a scalar"));
}

absl::StatusOr<std::vector<Shape>> AddToSeriesShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckRowOf(args.inputs[0], args.inputs[1], args.inputs[3]));
  const int64_t series = args.attrs.Int("series"), levels = SeriesLevels(series);
  if (series < 2 || (args.inputs[0][0] != levels && args.inputs[0][0] != -1)) {
    return absl::InvalidArgumentError(absl::StrCat("a series of ", series, " towers cannot use a variable of ",
                                                   args.inputs[0][0], " sums; expected at least two, and ", levels));
  }
  const DType sums = args.dtypes[0], value = args.dtypes[1];
  if ((value == DType::kFloat64) != (sums == DType::kFloat64) || args.inputs[2].rank() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("sums of ", DTypeName(value),
                                                   " must be float32, or float64 for float64", ", not ",
                                                   DTypeName(sums), ", and the weight a scalar"));
  }
  return std::vector<Shape>{args.inputs[0]};
}

absl::Status CheckIndex(int64_t index, int64_t end) {
  if (index >= 0 && index < end) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("index ", index, " is outside [0, ", end, ")"));
}

template <class T>
absl::StatusOr<Kernel> MakeAddToSeries(const KernelSpec& spec) {
  using C = Compute<T>;
  const int64_t n = spec.inputs[1].shape.elements(), series = spec.attrs.Int("series");
  return Kernel{[n, series](const KernelContext& context) -> absl::Status {
    C* sums = context.ref<C>(0);
    const T* value = context.input<T>(1);
    const auto weight = static_cast<C>(context.input<float>(2)[0]);
    const int64_t index = context.input<int64_t>(3)[0];
    RETURN_IF_ERROR(CheckIndex(index, series));
    const uint64_t merges = TreeMerges(index, series);
    C* const to = sums + TreeLevel(index, series) * n;
    ParallelFor(n, static_cast<double>(2 + absl::popcount(merges)), [&](int64_t begin, int64_t end) {
      constexpr int64_t kBlock = 512;
      C block[kBlock];
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t count = std::min(kBlock, end - at);
        for (int64_t i = 0; i < count; ++i) {
          block[i] = weight == C(0) ? C(0) : C(0) + weight * static_cast<C>(value[at + i]);
        }
        for (int64_t level = 0; merges >> level != 0; ++level) {
          if ((merges >> level & 1) == 0) continue;
          const C* earlier = sums + level * n + at;
          for (int64_t i = 0; i < count; ++i) block[i] = earlier[i] + block[i];
        }
        std::copy_n(block, count, to + at);
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> DivideSeriesShape(const ShapeArgs& args) {
  if (args.inputs[0].rank() > 0 && args.inputs[1].rank() == 0) return std::vector<Shape>{args.inputs[0]};
  return absl::InvalidArgumentError(absl::StrCat("the variable has shape ", args.inputs[0].ToString(), " and 'total' ",
                                                 args.inputs[1].ToString(), "; expected [N, ...] and a scalar"));
}

template <class T>
absl::StatusOr<Kernel> MakeDivideSeries(const KernelSpec& spec) {
  return Kernel{[n = spec.inputs[0].shape.Remove(0).elements()](const KernelContext& context) {
    T* const sum = context.ref<T>(0);
    const auto total = static_cast<T>(context.input<double>(1)[0]);
    ParallelFor(n, 2, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum[i] /= total;
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> AssignRowShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckRowOf(args.inputs[0], args.inputs[1], args.inputs[2]));
  return std::vector<Shape>{args.inputs[0]};
}

absl::StatusOr<Kernel> MakeAssignRow(const KernelSpec& spec) {
  const size_t bytes = spec.inputs[1].bytes();
  return Kernel{[bytes, rows = spec.inputs[0].shape[0]](const KernelContext& context) -> absl::Status {
    const int64_t index = context.input<int64_t>(2)[0];
    RETURN_IF_ERROR(CheckIndex(index, rows));
    if (bytes > 0) std::memcpy(context.ref<char>(0) + static_cast<size_t>(index) * bytes, context.inputs[1], bytes);
    return absl::OkStatus();
  }};
}

absl::StatusOr<std::vector<Shape>> TotalWeightShape(const ShapeArgs& args) {
  if (args.inputs[0].rank() == 1) return std::vector<Shape>{Shape()};
  return absl::InvalidArgumentError(absl::StrCat("'weights' has shape ", args.inputs[0].ToString(), "; expected [N]"));
}

absl::StatusOr<Kernel> MakeTotalWeight(const KernelSpec& spec) {
  return Kernel{[n = spec.inputs[0].shape.elements(),
                 message = spec.attrs.String("message")](const KernelContext& context) -> absl::Status {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float weight = context.input<float>(0)[i];
      if (!(weight >= 0) || std::isinf(weight)) {
        return absl::InvalidArgumentError(absl::StrCat("The loss of tower ", i, " has the weight ", weight,
                                                       " (SetLossWeight); expected a finite number of at least 0"));
      }
      total += weight;
    }
    context.output<double>(0)[0] = total;
    return total > 0 ? absl::OkStatus() : absl::InvalidArgumentError(message);
  }};
}

constexpr DType kSumTypes[] = {DType::kFloat32, DType::kFloat64};
constexpr DType kWeightTypes[] = {DType::kFloat32};

}  // namespace

int64_t SeriesLevels(int64_t series) { return absl::bit_width(static_cast<uint64_t>(series) - 1); }

Output AddToSeries(OpScope scope, const Variable& sums, Output value, Output weight, Output index, int64_t series) {
  return scope.Add("AddToSeries", {sums, value, weight, index}, {{"series", series}});
}

Output DivideSeries(OpScope scope, const Variable& sums, Output total) {
  return scope.Add("DivideSeries", {sums, total});
}

Output AssignRow(OpScope scope, const Variable& variable, Output value, Output index) {
  return scope.Add("AssignRow", {variable, value, index});
}

Output TotalWeight(OpScope scope, Output weights, absl::string_view message) {
  return scope.Add("TotalWeight", {weights}, {{"message", std::string(message)}});
}

void RegisterSeriesOps(OpRegistry& registry) {
  registry.Add({.name = "AddToSeries",
                .inputs = {{.name = "sums", .type = "Tsums", .ref = true},
                           {.name = "value"},
                           {.name = "weight", .type = "float32"},
                           {.name = "index", .type = "int64"}},
                .outputs = {{.name = "updated", .type = "Tsums", .ref = true}},
                .types = {{"T", kFloatTypes}, {"Tsums", kSumTypes}},
                .attrs = {{"series", int64_t{0}, true}},
                .shape = AddToSeriesShape,
                .gradient = NoGradient(kOfUpdates),
                .stateful = true,
                .kernels = Kernels<float, double, Half, BFloat16>(
                    "CPU", [](auto tag) { return &MakeAddToSeries<typename decltype(tag)::type>; })});
  registry.Add({.name = "DivideSeries",
                .inputs = {{.name = "sums", .ref = true}, {.name = "total", .type = "float64"}},
                .outputs = {{.name = "updated", .ref = true}},
                .types = {{"T", kSumTypes}},
                .shape = DivideSeriesShape,
                .gradient = NoGradient(kOfUpdates),
                .stateful = true,
                .kernels = Kernels<float, double>(
                    "CPU", [](auto tag) { return &MakeDivideSeries<typename decltype(tag)::type>; })});
  OpDef assign_row = {
      .name = "AssignRow",
      .inputs = {{.name = "variable", .ref = true}, {.name = "value"}, {.name = "index", .type = "int64"}},
      .outputs = {{.name = "updated", .ref = true}},
      .types = {{"T", kAnyType}},
      .shape = AssignRowShape,
      .gradient = NoGradient(kOfUpdates),
      .stateful = true};
  for (const DType dtype : kAllDTypes) assign_row.kernels.push_back({"CPU", dtype, &MakeAssignRow});
  registry.Add(std::move(assign_row));
  registry.Add(
      {.name = "TotalWeight",
       .inputs = {{.name = "weights"}},
       .outputs = {{.name = "total", .type = "float64"}},
       .types = {{"T", kWeightTypes}},
       .attrs = {{"message", std::string(), true}},
       .shape = TotalWeightShape,
       .gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) -> std::vector<Output> {
         return {BroadcastLike(scope, Cast(scope, dy[0], node.input(0).dtype()), node.input(0))};
       },
       .kernels = {{"CPU", DType::kFloat32, &MakeTotalWeight}}});
}

}  // namespace belfry::ops
