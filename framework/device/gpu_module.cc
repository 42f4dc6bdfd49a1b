#include "framework/device/gpu_module.h"

#include "absl/strings/str_cat.h"
#include "framework/base/module.h"

namespace belfry {
namespace {

absl::StatusOr<const GpuDevices*> FindGpus() {
  const absl::StatusOr<Module>& module = CudaModule();
  if (!module.ok()) return absl::NotFoundError(module.status().message());
  const auto* const gpus = module->Find<GpuDevices>("device");
  if (gpus == nullptr) return absl::NotFoundError("the CUDA module does not provide devices");
  return gpus;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenGpuDevices(int count, const DeviceOptions& options) {
  const absl::StatusOr<const GpuDevices*> gpus = FindGpus();
  if (gpus.ok()) return (*gpus)->open(count, options);
  return absl::InvalidArgumentError(absl::StrCat("Requested ", count, count == 1 ? " GPU" : " GPUs",
                                                 ", but found 0: ", gpus.status().message(), "; use cpu:N"));
}

absl::StatusOr<int> CountGpuDevices(const DeviceOptions& options) {
  const absl::StatusOr<const GpuDevices*> gpus = FindGpus();
  return gpus.ok() ? (*gpus)->count(options) : gpus.status();
}

}  // namespace belfry
