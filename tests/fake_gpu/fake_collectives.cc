#include "tests/fake_gpu/fake_gpu.h"
#include "tests/fake_gpu/fake_module.h"

namespace belfry {

const GpuCollectives* FakeGpuCollectives() {
  static constexpr GpuCollectives kTable = {
      .write_entry = &WriteEntry,
      .reduce_entries = &ReduceEntries,
      .scale_by_weight = &ScaleByWeight,
      .divide_by_total = &DivideByTotal,
      .reaches = &FakeGpuReaches,
      .open_nccl = []() -> absl::StatusOr<std::shared_ptr<NcclApi>> {
        return absl::UnimplementedError("fake GPUs have no NCCL");
      },
  };
  return &kTable;
}

}  // namespace belfry
