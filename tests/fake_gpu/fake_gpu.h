// Devices of type GPU that run on host threads, asynchronously, with memory that the host cannot touch. They make a
// GPU's demands on the runtime without a GPU. As with CUDA, a thread that captures may not allocate, wait for an event
// or a stream, or ask a stream for errors: the capture is then invalid.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "framework/collective/collective.h"
#include "framework/device/device_set.h"
#include "framework/graph/op_def.h"

namespace belfry {

// One CPU device with one thread, and `gpus` fakes /gpu:0 ... Each stream is a thread that takes its time, differently
// in each run; captured work is replayed in any order that the waits and records of the capture allow. With `tagged`,
// device pointers are tagged, so that an access by the host crashes; kernels in .cu files use pointers directly and
// need untagged ones. `apart` lists pairs of GPUs that cannot access each other's memory; pointers of such sets are not
// tagged, and a kernel that touches the other's memory crashes, while copies work in both directions. `compiler`:
// Device::CompileKernel of all of them; null where it is not supported.
using KernelCompiler = std::function<absl::StatusOr<std::shared_ptr<const CompiledKernel>>(const std::string& source)>;
DeviceSet OpenFakeGpus(int gpus, bool tagged = true, std::vector<std::pair<int, int>> apart = {},
                       KernelCompiler compiler = nullptr, const MathMode& math = {});

// True if kernels on one fake can access the memory of the other. REQUIRES: both belong to one set.
bool FakeGpuReaches(const Device& from, const Device& to);

// The launches of the host on a fake so far, outside of captures. Copies do not count.
struct FakeGpuLaunches {
  int64_t kernels = 0, graphs = 0;
};
FakeGpuLaunches LaunchesOn(const Device& fake);
// The next launch of a graph on the fake fails, and enqueues nothing.
void FailNextGraph(Device& fake);

// Enqueues a kernel on a fake's stream.
void EnqueueOnFakeGpu(Stream& stream, std::function<absl::Status()> work);

// A stream on which kernels are counted instead of run.
std::unique_ptr<Stream> NewCountingStream();
// The kernels that were enqueued on such a stream so far. Copies and settings of bytes count, too.
int64_t CountOf(const Stream& counting);

// Adds work that begins after all earlier work on all of `streams`, which take part in one capture, and ends before
// their later work.
void CaptureTogether(const std::vector<Stream*>& streams, std::function<absl::Status()> work);

// Identifies the capture that a fake's stream takes part in; null if none. For callers about to enqueue work on it.
const void* CaptureOfFakeGpu(const Stream& stream);

// Gives the CPU kernels of every op to the fakes as well.
void AddFakeGpuKernels(OpRegistry& registry);

// The averager among fakes.
absl::StatusOr<std::unique_ptr<Collective>> MakeFakeGpuCollective(CollectiveSpec spec);

}  // namespace belfry
