// Devices of type GPU that run on host threads, asynchronously, and whose memory the host cannot touch: what a GPU asks
// of the runtime, without one.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "framework/collective/collective.h"
#include "framework/device/device_set.h"
#include "framework/graph/op_def.h"

namespace belfry {

// One CPU device with one thread and `gpus` fakes, /gpu:0 ... Each stream is a thread that takes its time, differently
// at each run. `tagged`: device pointers are, so that a read or write by the host crashes; not for the kernels in .cu
// files, which use them as they are. `apart`: pairs of GPUs that do not reach each other's memory, whose pointers are
// not tagged; a kernel that touches it crashes, while copies go both ways.
DeviceSet OpenFakeGpus(int gpus, bool tagged = true, std::vector<std::pair<int, int>> apart = {});

// Both are fakes of one set.
bool FakeGpuReaches(const Device& from, const Device& to);

// Gives a fake's stream a kernel to run.
void EnqueueOnFakeGpu(Stream& stream, std::function<absl::Status()> work);

// Stands for the capture that a fake's stream takes part in; null: none. For who is about to give it work.
const void* CaptureOfFakeGpu(const Stream& stream);

// Gives every op that has kernels for CPUs the same for the fakes.
void AddFakeGpuKernels(OpRegistry& registry);

// Averages among fakes.
absl::StatusOr<std::unique_ptr<Collective>> MakeFakeGpuCollective(CollectiveSpec spec);

}  // namespace belfry
