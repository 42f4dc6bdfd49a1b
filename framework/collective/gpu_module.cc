#include "framework/collective/gpu_module.h"

#include "absl/strings/str_cat.h"
#include "framework/base/module.h"

namespace belfry {
namespace {

absl::Status NoModule() {
  return absl::UnimplementedError("Cannot average on GPUs: the CUDA module that opened them has no collectives");
}

constexpr GpuCollectives kNone = {
    .write_entry = [](Stream&, RankEntry*, void*, const float*) { return NoModule(); },
    .reduce_entries = [](Stream&, CollectiveKind, DType, RankEntry*, int, int64_t) { return NoModule(); },
    .scale_by_weight = [](Stream&, DType, int64_t, void*, const float*, const float*) { return NoModule(); },
    .divide_by_total = [](Stream&, DType, int64_t, void*, const float*) { return NoModule(); },
    .reaches = [](const Device&, const Device&) { return false; },
    .open_nccl = []() -> absl::StatusOr<std::shared_ptr<NcclApi>> { return NoModule(); },
};

}  // namespace

const GpuCollectives& CollectivesOnGpus() {
  // Looked up once, because plain steps call this in every run.
  static const GpuCollectives& found = [&]() -> const GpuCollectives& {
    const absl::StatusOr<Module>& module = CudaModule();
    const auto* const table = module.ok() ? module->Find<GpuCollectives>("collective") : nullptr;
    return table == nullptr ? kNone : *table;
  }();
  return found;
}

absl::StatusOr<std::shared_ptr<NcclApi>> OpenNccl() {
  const absl::StatusOr<Module>& module = CudaModule();
  if (module.ok()) return CollectivesOnGpus().open_nccl();
  return absl::UnimplementedError(
      absl::StrCat("Cannot average with NCCL: ", module.status().message(), "; use --averager=local"));
}

}  // namespace belfry
