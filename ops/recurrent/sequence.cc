#include "ops/sequence.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "ops/copy/copy_impl.h"
#include "ops/recurrent/recurrent_ops.h"
#include "ops/recurrent/sequence_impl.h"

namespace belfry::ops {
namespace {

using recurrent::Problem;

absl::Status CheckSequences(const ShapeArgs& args) {
  const Shape &x = args.inputs[0], &lengths = args.inputs[1];
  if (x.rank() >= 2 && lengths.rank() == 1 && Shape({x[0]}).CompatibleWith(lengths)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("needs x [N, T, ...] and lengths [N], but was given x ", x.ToString(),
                                                 " and lengths ", lengths.ToString()));
}

absl::StatusOr<std::vector<Shape>> ReverseShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckSequences(args));
  return std::vector<Shape>{args.inputs[0]};
}

absl::StatusOr<std::vector<Shape>> MaskShape(const ShapeArgs& args) {
  RETURN_IF_ERROR(CheckSequences(args));
  return std::vector<Shape>{{args.inputs[0][0], args.inputs[0][1]}};
}

absl::StatusOr<Kernel> MakeReverse(const KernelSpec& spec) {
  const Problem p = recurrent::SequencesOf(spec.inputs[0].shape);
  const auto bytes = static_cast<int64_t>(SizeOf(spec.inputs[0].dtype)) * p.h;
  return Kernel{[=](const KernelContext& context) {
    const auto* const lengths = context.input<int32_t>(1);
    RETURN_IF_ERROR(recurrent::CheckLengths(p, lengths));
    if (bytes == 0) return absl::OkStatus();
    const auto* const x = context.input<std::byte>(0);
    auto* const y = context.output<std::byte>(0);
    ParallelFor(p.n * p.t, static_cast<double>(p.h), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t batch = row / p.t, step = row % p.t;
        const int64_t from = batch * p.t + recurrent::Reversed(step, p.Steps(lengths, batch));
        std::memcpy(y + row * bytes, x + from * bytes, static_cast<size_t>(bytes));
      }
    });
    return absl::OkStatus();
  }};
}

absl::StatusOr<Kernel> MakeMask(const KernelSpec& spec) {
  const Problem p = recurrent::SequencesOf(spec.inputs[0].shape);
  return Kernel{[=](const KernelContext& context) {
    const auto* const lengths = context.input<int32_t>(1);
    RETURN_IF_ERROR(recurrent::CheckLengths(p, lengths));
    bool* const y = context.output<bool>(0);
    for (int64_t i = 0; i < p.n * p.t; ++i) y[i] = i % p.t < p.Steps(lengths, i / p.t);
    return absl::OkStatus();
  }};
}

}  // namespace

Output ReverseSequence(OpScope scope, Output x, Output lengths) { return scope.Add("ReverseSequence", {x, lengths}); }

Output SequenceMask(OpScope scope, Output x, Output lengths) { return scope.Add("SequenceMask", {x, lengths}); }

void RegisterSequenceOps(OpRegistry& registry) {
  const ArgDef lengths = {.name = "lengths", .type = "int32"};
  registry.Add(
      {.name = "ReverseSequence",
       .inputs = {{"x"}, lengths},
       .outputs = {{"y"}},
       .types = {{"T", kAnyType}},
       .shape = ReverseShape,
       .gradient = [](const Scope& scope, const Node& node, absl::Span<const Output> dy) -> std::vector<Output> {
         return {ReverseSequence(scope, dy[0], node.input(1)), Output()};
       },
       .kernels = AnyTypeKernels(MakeReverse)});
  registry.Add({.name = "SequenceMask",
                .inputs = {{.name = "x", .shape_only = true}, lengths},
                .outputs = {{.name = "y", .type = "bool"}},
                .types = {{"T", kAnyType}},
                .shape = MaskShape,
                .not_differentiable = true,
                .kernels = AnyTypeKernels(MakeMask)});
}

}  // namespace belfry::ops
