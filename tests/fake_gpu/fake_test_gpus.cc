#include "tests/fake_gpu/fake_gpu.h"
#include "tests/fake_gpu/host_compiler.h"
#include "tests/fake_gpu/test_gpus.h"

namespace belfry {

absl::StatusOr<DeviceSet> OpenTestGpus(int gpus) { return OpenFakeGpus(gpus, /*tagged=*/false, {}, CompileForHost); }
absl::StatusOr<DeviceSet> OpenFastTestGpu() { return OpenTestGpus(1); }
absl::StatusOr<DeviceSet> OpenTf32TestGpu() { return OpenTestGpus(1); }
absl::StatusOr<DeviceSet> OpenTestCards(int gpus) { return OpenTestGpus(gpus); }

}  // namespace belfry
