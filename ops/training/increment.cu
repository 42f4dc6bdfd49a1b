#include <algorithm>
#include <cstddef>
#include <vector>

#include "framework/base/status.h"
#include "framework/device/cuda/launch.h"
#include "ops/only_if.h"
#include "ops/training/training_ops.h"

namespace belfry::ops {
namespace {

// Counters of one launch. They fit into the 4 KiB of arguments that a launch can pass on every GPU.
constexpr size_t kCountersAtOnce = 240;

struct Counters {
  int64_t* counter[kCountersAtOnce];
  const bool* only_if[kCountersAtOnce];  // null: always
};

absl::Status IncrementAll(Stream& stream, size_t count, const Counters& counters) {
  static_assert(sizeof(counters) <= 4000);
  return gpu::ForEach(stream, static_cast<int64_t>(count), [=] BELFRY_GPU(int64_t i) {
    if (counters.only_if[i] == nullptr || *counters.only_if[i]) ++*counters.counter[i];
  });
}

// The kernel of one node, or of several fused into one.
absl::StatusOr<Kernel> MakeIncrements(absl::Span<const KernelSpec> specs) {
  const Condition condition(specs[0], 1);
  return Kernel{[condition, inputs = specs[0].inputs.size(), count = specs.size()](const KernelContext& context) {
    for (size_t first = 0; first < count; first += kCountersAtOnce) {
      const size_t now = std::min(kCountersAtOnce, count - first);
      Counters counters{};
      for (size_t i = 0; i < now; ++i) {
        KernelContext at = context;
        at.inputs += (first + i) * inputs;
        counters.counter[i] = at.ref<int64_t>(0);
        counters.only_if[i] = condition.At(at);
      }
      RETURN_IF_ERROR(IncrementAll(*context.stream, now, counters));
    }
    return absl::OkStatus();
  }};
}

absl::StatusOr<Kernel> MakeIncrement(const KernelSpec& spec) { return MakeIncrements({spec}); }

}  // namespace

void AddIncrementGpuKernels(KernelTable& table) {
  table.AddKernels(
      "Increment",
      {{.device_type = "GPU", .dtype = DType::kInt64, .make = &MakeIncrement, .fuse_updates = &MakeIncrements}});
}

}  // namespace belfry::ops
