// Tests of the CUDA back-end against faults of machines and drivers.
#include "tests/fake_cuda/fake_cuda.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/steady_time.h"
#include "framework/device/cuda/native.h"
#include "framework/device/device_set.h"
#include "framework/device/gpu_support.h"
#include "tests/framework/device/backend.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using fake_cuda::PeerPath;
using testing::AllOf;
using testing::HasSubstr;

// Two cards, also for the suites that are written for real ones.
class TwoCards final : public testing::Environment {
 public:
  void SetUp() override { fake_cuda::SetCards(2); }
};
const testing::Environment* const kTwoCards = testing::AddGlobalTestEnvironment(new TwoCards);

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class FakeCuda : public testing::Test {
 protected:
  void SetUp() override { fake_cuda::SetCards(2); }
  void TearDown() override {
    devices_ = DeviceSet();
    EXPECT_EQ(fake_cuda::Handles(), 0) << "streams and events are destroyed";
    for (int card : {0, 1}) EXPECT_EQ(fake_cuda::DeviceBytes(card), 0u);
    EXPECT_EQ(fake_cuda::HostBytes(), 0u);
    fake_cuda::SetCards(2);
  }
  // Opens devices and returns the log lines.
  std::string Open(absl::string_view spec, const DeviceOptions& options = {}) {
    std::ostringstream log;
    const auto former = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
    auto devices = DeviceSet::Open(spec, options);
    spdlog::set_default_logger(former);
    EXPECT_TRUE(devices.ok()) << devices.status();
    if (devices.ok()) devices_ = *std::move(devices);
    return log.str();
  }
  Device& gpu(int id) { return devices_.device(1 + id); }

  DeviceSet devices_;
};

// Work that lasts until it is let go.
struct Gate {
  std::atomic<bool> open{false};
  static void Run(void* gate) {
    while (!static_cast<Gate*>(gate)->open.load()) std::this_thread::yield();
  }
};
absl::Status Launch(Stream& stream, void (*kernel)(void*), void* data) {
  const cudaError_t error = fake_cuda::Launch(NativeStream(stream), kernel, data);
  return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorString(error));
}

TEST_F(FakeCuda, WithoutDriverOrGpu) {
  fake_cuda::SetCountError(cudaErrorInsufficientDriver, 0);
  EXPECT_EQ(Message(DeviceSet::Open("gpu:1").status()),
            "Requested 1 GPU, but found 0: this machine has no CUDA driver; use cpu:N");
  fake_cuda::SetCountError(cudaErrorNoDevice, 13020);
  const absl::Status status = DeviceSet::Open("gpu:3").status();
  const std::string why =
      absl::StrCat("no CUDA-capable device is detected (the driver supports CUDA 13.2, this Belfry ", "was built with ",
                   CudaVersionText(CUDART_VERSION), ")");
  EXPECT_EQ(Message(status), absl::StrCat("Requested 3 GPUs, but found 0: ", why, "; use cpu:N"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(CountGpuDevices({}).status()), why);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(FakeCuda, ADriverThatIsTooOldIsNamedWithWhatIsNeeded) {
  fake_cuda::SetCountError(cudaErrorInsufficientDriver, 11080);
  EXPECT_EQ(Message(DeviceSet::Open("gpu:1").status()),
            absl::StrCat("Requested 1 GPU, but found 0: ", DriverIsTooOld(11080, CUDART_VERSION), "; use cpu:N"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(FakeCuda, CardsWithoutCodeForThemAreNotOpened) {
  fake_cuda::SetCapability(75);
  const absl::Status status = DeviceSet::Open("gpu:1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(status),
            "CUDA device 0 (Fake H200): compute capability 7.5 is not supported; 8.0 (Ampere) or later "
            "is needed");
}

TEST_F(FakeCuda, DescriptionsAndPlaces) {
  Open("gpu:2");
  EXPECT_EQ(gpu(1).description(),
            absl::StrCat("device: 1, name: Fake H200, pci bus id: 0000:5e:00.0, compute capability: ",
                         fake_cuda::kCapability / 10, ".", fake_cuda::kCapability % 10, ", memory: 1.0 GiB"));
  EXPECT_EQ(gpu(0).counters().memory_limit, 960 * kMi) << "a sixteenth is left";
  Open("gpu:3", {.virtual_gpus = 2, .gpu_memory = "0.25", .visible_gpus = "1,0"});
  EXPECT_EQ(gpu(0).physical_id(), 1);
  EXPECT_EQ(gpu(1).physical_id(), 1);
  EXPECT_EQ(gpu(2).physical_id(), 0);
  EXPECT_THAT(gpu(1).description(), HasSubstr("device: 1, name: Fake H200"));
  EXPECT_THAT(gpu(1).description(), HasSubstr(", virtual 2 of 2, limit 0.2 GiB"));
  EXPECT_EQ(
      Message(DeviceSet::Open("gpu:5", {.virtual_gpus = 2}).status()),
      "Requested 5 GPUs, but found 4: 2 cards, each opened as 2; increase virtual_gpus to open each card as more GPUs");
}

TEST_F(FakeCuda, ProcessesOfAMachineTakeCardsInTurn) {
  Open("gpu:1", {.local_rank = 1, .several_processes = true});
  EXPECT_EQ(gpu(0).physical_id(), 1);
  EXPECT_FALSE(gpu(0).only_gpu());
  Open("gpu:1");
  EXPECT_TRUE(gpu(0).only_gpu());
  EXPECT_THAT(Message(DeviceSet::Open("gpu:1", {.local_rank = 2}).status()),
              HasSubstr("start at most 2 processes on this machine"));
}

TEST_F(FakeCuda, CollectivesGoFirst) {
  Open("gpu:1");
  const auto priority = [&](StreamKind kind) {
    return fake_cuda::Priority(NativeStream(*gpu(0).NewStream(kind).value()));
  };
  EXPECT_EQ(priority(StreamKind::kCollective), fake_cuda::kFirstPriority);
  for (StreamKind kind : {StreamKind::kCompute, StreamKind::kCopyIn, StreamKind::kCopyOut}) {
    EXPECT_EQ(priority(kind), 0);
  }
}

// On any thread, at any time.
TEST_F(FakeCuda, CardsThatAreNotUsedAreLeftAlone) {
  Open("gpu:1", {.visible_gpus = "1"});
  const auto apart = [](auto&& work) { std::thread(work).join(); };
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> event;
  DeviceMemory memory, host;
  apart([&] { stream = gpu(0).NewStream(StreamKind::kCompute).value(); });
  apart([&] { event = gpu(0).NewEvent(); });
  apart([&] { memory = DeviceMemory::Allocate(gpu(0), 100).value(); });
  apart([&] { host = DeviceMemory::AllocateHost(gpu(0), 100).value(); });
  apart([&] { ASSERT_TRUE(stream->Copy(memory.data(), gpu(0), host.data(), devices_.device(0), 100).ok()); });
  apart([&] { stream->Record(*event, 1); });
  apart([&] { ASSERT_TRUE(stream->Wait(*event, 1, kNever).ok()); });
  apart([&] { ASSERT_TRUE(event->Wait(1, kNever).ok()); });
  apart([&] { ASSERT_TRUE(stream->Error().ok()); });
  apart([&] { ASSERT_TRUE(stream->Synchronize().ok()); });
  apart([&] {
    ASSERT_TRUE(Launch(
                    *stream, [](void*) {}, nullptr)
                    .ok());
  });
  apart([&] {
    const auto on_cpu = devices_.device(0).NewEvent();
    stream->Record(*on_cpu, 1);
    stream->Synchronize().IgnoreError();
  });
  apart([&] { stream = nullptr; });
  apart([&] { event = nullptr; });
  apart([&] { host = DeviceMemory(); });
  apart([&] { memory = DeviceMemory(); });
  apart([&] { devices_ = DeviceSet(); });
  EXPECT_TRUE(fake_cuda::HasContext(1));
  EXPECT_FALSE(fake_cuda::HasContext(0));
}

TEST_F(FakeCuda, MemoryGrowsOrIsReserved) {
  Open("gpu:1", {.gpu_memory = "512MiB"});
  EXPECT_EQ(fake_cuda::DeviceBytes(0), 0u);
  { const DeviceMemory memory = DeviceMemory::Allocate(gpu(0), 1000).value(); }
  EXPECT_EQ(fake_cuda::DeviceBytes(0), 2 * kMi);
  devices_ = DeviceSet();
  Open("gpu:1", {.gpu_memory = "512MiB", .gpu_memory_growth = false});
  EXPECT_EQ(fake_cuda::DeviceBytes(0), 512 * kMi);
  EXPECT_THAT(Message(DeviceSet::Open("gpu:1", {.gpu_memory = "600MiB"}).status()),
              HasSubstr("Cannot open CUDA device 0 (Fake H200): gpu_memory='600MiB'"));
}

TEST_F(FakeCuda, AFullCardIsResourceExhausted) {
  Open("gpu:1", {.gpu_memory = "512MiB"});
  DeviceSet others = DeviceSet::Open("gpu:1", {.gpu_memory = "800MiB"}).value();
  const DeviceMemory most = DeviceMemory::Allocate(others.device(1), 700 * kMi).value();
  const absl::Status status = gpu(0).Allocate(400 * kMi).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("device:GPU:0 cannot allocate 419430400"), HasSubstr("out of memory")));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "no launch is blamed for it";
  fake_cuda::FailNext("cudaHostAlloc", cudaErrorMemoryAllocation);
  EXPECT_EQ(gpu(0).AllocateHost(100).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(FakeCuda, GoodPeersAreConnected) {
  EXPECT_EQ(Open("gpu:2"), "");
  EXPECT_TRUE(CanReach(gpu(0), gpu(1)));
  const int before = fake_cuda::PeerCopies();
  const DeviceMemory a = DeviceMemory::Allocate(gpu(0), 3 * kMi).value();
  const DeviceMemory b = DeviceMemory::Allocate(gpu(1), 3 * kMi).value();
  const auto stream = gpu(1).NewStream(StreamKind::kCopyIn).value();
  ASSERT_TRUE(stream->Copy(b.data(), gpu(1), a.data(), gpu(0), 3 * kMi).ok());
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(fake_cuda::PeerCopies(), before + 1);
}

TEST_F(FakeCuda, BadPeersAreNotConnectedAndReported) {
  for (PeerPath path : {PeerPath::kNone, PeerPath::kCorrupts}) {
    fake_cuda::SetPeerPath(path);
    const std::string log = Open("gpu:2");
    EXPECT_THAT(log, HasSubstr("CUDA device 0 (Fake H200) and CUDA device 1 (Fake H200) are not connected"));
    EXPECT_THAT(log, HasSubstr(path == PeerPath::kNone ? "no path between them" : "arrived with different contents"));
    EXPECT_FALSE(CanReach(gpu(0), gpu(1)));
    const int before = fake_cuda::PeerCopies();
    std::vector<uint8_t> sent(5 * kMi, 3), received(5 * kMi);
    const DeviceMemory a = DeviceMemory::Allocate(gpu(0), sent.size()).value();
    const DeviceMemory b = DeviceMemory::Allocate(gpu(1), sent.size()).value();
    const auto stream = gpu(0).NewStream(StreamKind::kCopyOut).value(),
               last = gpu(1).NewStream(StreamKind::kCopyOut).value();
    ASSERT_TRUE(stream->Copy(a.data(), gpu(0), sent.data(), devices_.device(0), sent.size()).ok());
    ASSERT_TRUE(stream->Copy(b.data(), gpu(1), a.data(), gpu(0), sent.size()).ok());
    ASSERT_TRUE(stream->Synchronize().ok());
    ASSERT_TRUE(last->Copy(received.data(), devices_.device(0), b.data(), gpu(1), sent.size()).ok());
    ASSERT_TRUE(last->Synchronize().ok());
    EXPECT_EQ(sent, received);
    EXPECT_EQ(fake_cuda::PeerCopies(), before);
  }
}

TEST_F(FakeCuda, ThroughTheHostOnRequestWithoutATrial) {
  EXPECT_EQ(Open("gpu:2", {.peer_through_host = true}), "");
  EXPECT_EQ(fake_cuda::PeerCopies(), 0);
  EXPECT_FALSE(CanReach(gpu(0), gpu(1)));
}

TEST_F(FakeCuda, WhatIsNotReadyIsNoErrorOfALaunch) {
  Open("gpu:2");
  const auto stream = gpu(1).NewStream(StreamKind::kCompute).value();
  const auto event = gpu(1).NewEvent();
  Gate gate;
  ASSERT_TRUE(Launch(*stream, Gate::Run, &gate).ok());
  stream->Record(*event, 1);
  EXPECT_TRUE(stream->Error().ok());
  EXPECT_TRUE(Launch(
                  *stream, [](void*) {}, nullptr)
                  .ok());
  EXPECT_EQ(event->Wait(1, SteadyNow() + absl::Milliseconds(5)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Launch(
                  *stream, [](void*) {}, nullptr)
                  .ok());
  gate.open = true;
  EXPECT_TRUE(event->Wait(1, kNever).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
}

TEST_F(FakeCuda, AWaitOfTheHostIsCancelled) {
  Open("gpu:1");
  const auto stream = gpu(0).NewStream(StreamKind::kCompute).value();
  const auto event = gpu(0).NewEvent();
  Gate gate;
  ASSERT_TRUE(Launch(*stream, Gate::Run, &gate).ok());
  stream->Record(*event, 1);
  std::thread cancel([&] {
    absl::SleepFor(absl::Milliseconds(10));
    event->Cancel();
  });
  EXPECT_EQ(event->Wait(1, kNever).code(), absl::StatusCode::kCancelled);
  cancel.join();
  gate.open = true;
  EXPECT_TRUE(stream->Synchronize().ok());
}

// A run does not count as done because an earlier or later one is, neither for the host nor for a stream.
TEST_F(FakeCuda, EachRunIsWaitedForByItself) {
  Open("gpu:2");
  const auto stream = gpu(0).NewStream(StreamKind::kCompute).value();
  const auto event = gpu(0).NewEvent();
  std::vector<Gate> gates(kEventRuns + 1);
  for (uint32_t round = 0; round < 5; ++round) {
    const uint32_t first = 1 + round * (kEventRuns + 1);
    for (Gate& gate : gates) gate.open = false;
    for (uint32_t i = 0; i <= kEventRuns; ++i) {
      ASSERT_TRUE(Launch(*stream, Gate::Run, &gates[i]).ok());
      stream->Record(*event, first + i);
    }
    for (uint32_t i = 0; i <= kEventRuns; ++i) {
      EXPECT_EQ(event->Wait(first + i, SteadyNow() + absl::Milliseconds(3)).code(),
                absl::StatusCode::kDeadlineExceeded);
      const auto other = gpu(1).NewStream(StreamKind::kCompute).value();
      const auto seen = gpu(1).NewEvent();
      ASSERT_TRUE(other->Wait(*event, first + i, kNever).ok());
      other->Record(*seen, 1);
      EXPECT_EQ(seen->Wait(1, SteadyNow() + absl::Milliseconds(3)).code(), absl::StatusCode::kDeadlineExceeded);
      gates[i].open = true;
      EXPECT_TRUE(event->Wait(first + i, kNever).ok());
      EXPECT_TRUE(seen->Wait(1, kNever).ok());
    }
  }
  EXPECT_TRUE(stream->Synchronize().ok());
}

TEST_F(FakeCuda, AStickyErrorStays) {
  Open("gpu:2");
  const auto stream = gpu(0).NewStream(StreamKind::kCompute).value(),
             other = gpu(1).NewStream(StreamKind::kCompute).value();
  const auto event = gpu(0).NewEvent();
  stream->Record(*event, 1);
  ASSERT_TRUE(stream->Synchronize().ok());
  fake_cuda::Break(0, cudaErrorIllegalAddress);
  const absl::Status status = stream->Error();
  EXPECT_EQ(
      Message(status),
      "CUDA device 0 (Fake H200): cudaStreamQuery: an illegal memory access was encountered; an earlier kernel may "
      "be the cause, and the device cannot be used until the process is restarted");
  EXPECT_EQ(stream->Error(), status);
  EXPECT_EQ(stream->Synchronize(), status);
  EXPECT_EQ(event->Wait(1, kNever), status);
  stream->Record(*event, 2);
  EXPECT_EQ(event->Wait(2, kNever).ok(), true) << "nobody waits for ever";
  EXPECT_EQ(stream->Error(), status);
  EXPECT_EQ(gpu(0).NewStream(StreamKind::kCompute).status(), status);
  EXPECT_TRUE(other->Error().ok());
}

TEST_F(FakeCuda, AnotherErrorPasses) {
  Open("gpu:1");
  const auto stream = gpu(0).NewStream(StreamKind::kCompute).value();
  const auto event = gpu(0).NewEvent();
  fake_cuda::FailNext("cudaEventRecord", cudaErrorUnknown);
  stream->Record(*event, 1);
  EXPECT_TRUE(event->Wait(1, kNever).ok());
  EXPECT_THAT(Message(stream->Error()), HasSubstr("CUDA device 0 (Fake H200): cudaEventRecord: fake error"));
  EXPECT_TRUE(stream->Error().ok());
  fake_cuda::FailNext("cudaStreamSynchronize", cudaErrorUnknown);
  EXPECT_THAT(Message(stream->Synchronize()), HasSubstr("cudaStreamSynchronize"));
  EXPECT_TRUE(stream->Synchronize().ok());
  fake_cuda::FailNext("cudaMemcpyAsync", cudaErrorUnknown);
  const DeviceMemory memory = DeviceMemory::Allocate(gpu(0), 100).value();
  EXPECT_THAT(Message(stream->Copy(memory.data(), gpu(0), memory.data(), gpu(0), 10)), HasSubstr("cudaMemcpyAsync"));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(FakeCuda, EventsThatCouldNotBeMadeAreMadeLater) {
  Open("gpu:1");
  const auto stream = gpu(0).NewStream(StreamKind::kCompute).value();
  fake_cuda::FailNext("cudaEventCreateWithFlags", cudaErrorMemoryAllocation);
  const auto event = gpu(0).NewEvent();
  for (uint32_t run = 1; run < 20; ++run) stream->Record(*event, run);
  EXPECT_TRUE(event->Wait(19, kNever).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
}

// CUDA allows none of this, and what was captured is lost.
TEST_F(FakeCuda, ACapturingThreadMayNotAllocateOrAsk) {
  Open("gpu:1");
  const auto stream = gpu(0).NewStream(StreamKind::kCompute).value(),
             other = gpu(0).NewStream(StreamKind::kCopyIn).value();
  const cudaStream_t native = NativeStream(*stream), beside = NativeStream(*other);
  void *memory = nullptr, *host = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&memory, 100), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&host, 100, cudaHostAllocPortable), cudaSuccess);
  void* more = nullptr;
  char pageable[100] = {};
  const std::vector<std::function<cudaError_t()>> calls = {
      [&] { return cudaMalloc(&more, 100); },
      [&] { return cudaHostAlloc(&more, 100, cudaHostAllocPortable); },
      [&] { return cudaFree(memory); },
      [&] { return cudaFreeHost(host); },
      [&] { return cudaStreamQuery(native); },
      [&] { return cudaStreamQuery(beside); },
      [&] { return cudaStreamSynchronize(native); },
      [&] { return cudaStreamSynchronize(beside); },
      [&] { return cudaEventQuery(event); },
      [&] { return cudaEventSynchronize(event); },
      [&] { return cudaMemcpyAsync(memory, pageable, 100, cudaMemcpyHostToDevice, native); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TRUE(stream->BeginCapture().ok());
    EXPECT_EQ(calls[i](), cudaErrorStreamCaptureUnsupported) << i;
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(native, &graph), cudaErrorStreamCaptureInvalidated) << i;
    EXPECT_EQ(graph, nullptr);
    // Another thread may, but not of the stream that captures.
    ASSERT_TRUE(stream->BeginCapture().ok());
    std::thread([&] {
      EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
      EXPECT_EQ(cudaStreamQuery(beside), cudaSuccess);
      EXPECT_EQ(cudaMalloc(&more, 100), cudaSuccess);
      EXPECT_EQ(cudaFree(more), cudaSuccess);
    }).join();
    EXPECT_TRUE(stream->EndCapture().ok());
  }
  cudaGetLastError();
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
}

TEST_F(FakeCuda, EventsOfACaptureCannotBeAskedUntilTheyAreRecordedAgain) {
  Open("gpu:1");
  const auto stream = gpu(0).NewStream(StreamKind::kCompute).value(),
             other = gpu(0).NewStream(StreamKind::kCopyIn).value();
  const cudaStream_t native = NativeStream(*stream);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_TRUE(stream->BeginCapture().ok());
  ASSERT_EQ(cudaEventRecord(event, native), cudaSuccess);
  std::thread([&] {
    EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
    EXPECT_EQ(cudaStreamQuery(native), cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(native, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_FALSE(stream->EndCapture().ok());
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(NativeStream(*other), event, 0), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventRecord(event, native), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  cudaGetLastError();
}

TEST_F(FakeCuda, ACaptureRefusesEventsOfTheHost) {
  Open("gpu:1");
  const auto stream = gpu(0).NewStream(StreamKind::kCompute).value();
  const auto event = devices_.device(0).NewEvent();
  ASSERT_TRUE(stream->BeginCapture().ok());
  stream->Record(*event, 1);
  EXPECT_TRUE(event->Wait(1, kNever).ok()) << "nobody waits for ever";
  const absl::Status status = stream->EndCapture().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("a captured step cannot record an event of the host"));
  stream->Record(*event, 2);
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_TRUE(event->Wait(2, SteadyNow()).ok());
}

// Opening may fail at any call, and then leaves nothing behind.
TEST_F(FakeCuda, OpeningFailsCleanly) {
  for (const char* call : {"cudaGetDeviceProperties", "cudaFree"}) {
    fake_cuda::FailNext(call, cudaErrorUnknown);
    EXPECT_EQ(DeviceSet::Open("gpu:2").status().code(), absl::StatusCode::kInternal) << call;
  }
  for (const char* call : {"cudaMalloc", "cudaHostAlloc", "cudaStreamCreateWithPriority", "cudaMemcpyPeerAsync"}) {
    fake_cuda::FailNext(call, cudaErrorUnknown);
    EXPECT_THAT(Open("gpu:2"), HasSubstr("are not connected")) << call;
  }
  fake_cuda::FailNext("cudaMalloc", cudaErrorMemoryAllocation);
  EXPECT_EQ(DeviceSet::Open("gpu:1", {.gpu_memory_growth = false}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace belfry
