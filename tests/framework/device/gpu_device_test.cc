// Requirements on GPUs beyond those on every device, tested on real ones if the machine has them, and on fakes.
#include <algorithm>
#include <cstring>
#include <ostream>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/steady_time.h"
#include "framework/collective/gpu_module.h"
#include "framework/device/device_set.h"
#include "tests/framework/device/backend.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// Two GPUs: on separate cards, on separate cards with copies through the host, and on one card.
struct Case {
  const char* name;
  DeviceOptions options;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Through the module's table, because the program does not link the module.
bool Reaches(const Device& from, const Device& to) { return CollectivesOnGpus().reaches(from, to); }

class TwoGpus : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ASSIGN_OR_SKIP(devices_, DeviceSet::Open("gpu:2", GetParam().options));
    host_ = &devices_.device(0);
    gpu_[0] = &devices_.device(1);
    gpu_[1] = &devices_.device(2);
  }
  static std::unique_ptr<Stream> NewStream(Device& device, StreamKind kind = StreamKind::kCompute) {
    return device.NewStream(kind).value();
  }
  static std::vector<uint8_t> Random(size_t bytes) {
    std::mt19937 random(static_cast<uint32_t>(bytes));
    std::vector<uint8_t> data(bytes);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
    return data;
  }

  DeviceSet devices_;
  Device* host_ = nullptr;
  Device* gpu_[2] = {};
};

TEST_P(TwoGpus, SayWhatTheyAre) {
  const bool share = GetParam().options.virtual_gpus > 1;
  EXPECT_THAT(gpu_[0]->description(), MatchesRegex("device: [0-9]+, name: .+, pci bus id: [0-9a-f]+:[0-9a-f]+:[0-9a-f]+"
                                                   "\\.[0-9a-f], compute capability: [0-9]+\\.[0-9]+, memory: "
                                                   "[0-9.]+ GiB.*"));
  EXPECT_EQ(gpu_[0]->physical_id() == gpu_[1]->physical_id(), share);
  if (share) {
    EXPECT_THAT(gpu_[1]->description(), HasSubstr(", virtual 2 of 2, limit 0.1 GiB"));
    EXPECT_TRUE(Reaches(*gpu_[0], *gpu_[1]));
  }
  if (GetParam().options.peer_through_host) {
    EXPECT_FALSE(Reaches(*gpu_[0], *gpu_[1]));
  }
  EXPECT_TRUE(Reaches(*gpu_[0], *gpu_[0]));
  EXPECT_FALSE(Reaches(*gpu_[0], *host_));
  EXPECT_EQ(gpu_[0]->counters().memory_limit, 128 * kMi);
  EXPECT_TRUE(gpu_[0]->asynchronous());
}

TEST_P(TwoGpus, MemoryUpToTheLimitEach) {
  for (Device* gpu : gpu_) {
    const DeviceMemory all = DeviceMemory::Allocate(*gpu, 128 * kMi).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.data()) % 256, 0u);
    EXPECT_THAT(gpu->Allocate(1).status(),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(gpu->name().ToString())));
  }
  EXPECT_EQ(gpu_[0]->counters().bytes_in_use, 0u);
}

TEST_P(TwoGpus, HostMemoryIsAligned) {
  for (size_t bytes : {size_t{1}, size_t{100}, 3 * kMi}) {
    const DeviceMemory memory = DeviceMemory::AllocateHost(*gpu_[0], bytes).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
    std::memset(memory.data(), 1, bytes);
  }
  EXPECT_EQ(DeviceMemory::AllocateHost(*gpu_[0], 0).value().data(), nullptr);
}

TEST_P(TwoGpus, CopiesOfAllSizesOnStreamsOfBoth) {
  for (size_t bytes : {size_t{1}, kMi - 1, kMi, 2 * kMi + 1, 5 * kMi + 3}) {
    for (int from = 0; from < 2; ++from) {
      for (int worker = 0; worker < 2; ++worker) {
        Device &source = *gpu_[from], &target = *gpu_[1 - from];
        const std::vector<uint8_t> sent = Random(bytes);
        const DeviceMemory a = DeviceMemory::Allocate(source, bytes).value();
        const DeviceMemory b = DeviceMemory::Allocate(target, bytes).value();
        const auto stream = NewStream(*gpu_[worker]), first = NewStream(source), last = NewStream(target);
        const auto event = source.NewEvent(), copied = gpu_[worker]->NewEvent();
        for (uint32_t run = 1; run <= 3; ++run) {
          std::vector<uint8_t> received(bytes), input = sent;
          input[0] = static_cast<uint8_t>(run);
          ASSERT_TRUE(first->Copy(a.data(), source, input.data(), *host_, bytes).ok());
          first->Record(*event, run);
          ASSERT_TRUE(stream->Wait(*event, run, kNever).ok());
          ASSERT_TRUE(stream->Copy(b.data(), target, a.data(), source, bytes).ok());
          stream->Record(*copied, run);
          ASSERT_TRUE(last->Wait(*copied, run, kNever).ok());
          ASSERT_TRUE(first->Wait(*copied, run, kNever).ok());
          ASSERT_TRUE(last->Copy(received.data(), *host_, b.data(), target, bytes).ok());
          ASSERT_TRUE(last->Synchronize().ok());
          ASSERT_TRUE(received == input) << bytes << " bytes from " << from << " by " << worker;
        }
        for (const auto& each : {&stream, &first, &last}) ASSERT_TRUE((*each)->Synchronize().ok());
      }
    }
  }
}

// Page-locked memory is read as soon as the host's wait ends, without querying the stream.
TEST_P(TwoGpus, TheHostWaitsForTheWorkBeforeARecord) {
  const size_t bytes = 8 * kMi;
  const DeviceMemory memory = DeviceMemory::Allocate(*gpu_[0], bytes).value();
  const DeviceMemory in = DeviceMemory::AllocateHost(*gpu_[0], bytes).value();
  const DeviceMemory out = DeviceMemory::AllocateHost(*gpu_[0], bytes).value();
  const auto stream = NewStream(*gpu_[0]);
  const auto event = gpu_[0]->NewEvent();
  for (uint32_t run = 1; run <= 40; ++run) {
    std::memset(in.data(), static_cast<int>(run), bytes);
    std::memset(out.data(), 0, bytes);
    ASSERT_TRUE(stream->Copy(memory.data(), *gpu_[0], in.data(), *host_, bytes).ok());
    ASSERT_TRUE(stream->Copy(out.data(), *host_, memory.data(), *gpu_[0], bytes).ok());
    stream->Record(*event, run);
    ASSERT_TRUE(event->Wait(run, SteadyNow() + absl::Seconds(60)).ok());
    ASSERT_EQ(std::memcmp(in.data(), out.data(), bytes), 0);
    ASSERT_TRUE(stream->Error().ok());
  }
}

// A token goes back and forth between two devices, each served by a thread that runs ahead as far as it may.
TEST_P(TwoGpus, ThreadsHandOverThroughEvents) {
  constexpr uint32_t kRuns = 300;
  const size_t bytes = 64 << 10;
  const DeviceMemory a = DeviceMemory::Allocate(*gpu_[0], bytes).value();
  const DeviceMemory b = DeviceMemory::Allocate(*gpu_[1], bytes).value();
  const DeviceMemory in = DeviceMemory::AllocateHost(*gpu_[0], bytes).value();
  const DeviceMemory out = DeviceMemory::AllocateHost(*gpu_[1], kRuns * bytes).value();
  const auto ping = gpu_[0]->NewEvent(), pong = gpu_[1]->NewEvent();
  std::thread other([&] {
    const auto stream = NewStream(*gpu_[1]);
    for (uint32_t run = 1; run <= kRuns; ++run) {
      ASSERT_TRUE(stream->Wait(*ping, run, kNever).ok());
      ASSERT_TRUE(stream->Copy(b.data(), *gpu_[1], a.data(), *gpu_[0], bytes).ok());
      stream->Record(*pong, run);
      ASSERT_TRUE(
          stream->Copy(static_cast<std::byte*>(out.data()) + (run - 1) * bytes, *host_, b.data(), *gpu_[1], bytes)
              .ok());
    }
    ASSERT_TRUE(stream->Synchronize().ok());
  });
  const auto stream = NewStream(*gpu_[0]);
  const auto sent = gpu_[0]->NewEvent();
  for (uint32_t run = 1; run <= kRuns; ++run) {
    ASSERT_TRUE(sent->Wait(run - 1, kNever).ok());
    std::fill_n(static_cast<uint32_t*>(in.data()), bytes / 4, run);
    ASSERT_TRUE(stream->Wait(*pong, run - 1, kNever).ok());
    ASSERT_TRUE(stream->Copy(a.data(), *gpu_[0], in.data(), *host_, bytes).ok());
    stream->Record(*sent, run);
    stream->Record(*ping, run);
  }
  other.join();
  ASSERT_TRUE(stream->Synchronize().ok());
  for (uint32_t run = 1; run <= kRuns; ++run) {
    const auto* got = static_cast<const uint32_t*>(out.data()) + (run - 1) * bytes / 4;
    for (size_t i = 0; i < bytes / 4; i += 1023) ASSERT_EQ(got[i], run);
  }
}

TEST_P(TwoGpus, AnEventMayBeRecordedByAnotherDevice) {
  const auto event = gpu_[0]->NewEvent();
  const auto here = NewStream(*gpu_[0]), there = NewStream(*gpu_[1]);
  for (uint32_t run = 1; run <= 30; ++run) {
    Stream& by = run % 3 == 0 ? *here : *there;
    by.Record(*event, run);
    ASSERT_TRUE(by.Error().ok());
    ASSERT_TRUE(here->Wait(*event, run, kNever).ok());
    ASSERT_TRUE(there->Wait(*event, run, kNever).ok());
    ASSERT_TRUE(event->Wait(run, kNever).ok());
  }
  ASSERT_TRUE(here->Synchronize().ok());
  ASSERT_TRUE(there->Synchronize().ok());
}

TEST_P(TwoGpus, EventsOfTheCpuAreRecordedAndWaitedFor) {
  const size_t bytes = 4 * kMi;
  const auto event = host_->NewEvent(), back = host_->NewEvent();
  const auto stream = NewStream(*gpu_[0]);
  const DeviceMemory memory = DeviceMemory::Allocate(*gpu_[0], bytes).value();
  const DeviceMemory in = DeviceMemory::AllocateHost(*gpu_[0], bytes).value();
  const DeviceMemory out = DeviceMemory::AllocateHost(*gpu_[0], bytes).value();
  std::thread cpu([&] {
    std::memset(in.data(), 7, bytes);
    event->Record(1);
  });
  ASSERT_TRUE(stream->Wait(*event, 1, kNever).ok());
  cpu.join();
  ASSERT_TRUE(stream->Copy(memory.data(), *gpu_[0], in.data(), *host_, bytes).ok());
  ASSERT_TRUE(stream->Copy(out.data(), *host_, memory.data(), *gpu_[0], bytes).ok());
  stream->Record(*back, 1);
  ASSERT_TRUE(back->Wait(1, kNever).ok());
  EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0);
  ASSERT_TRUE(stream->Synchronize().ok());
}

TEST_P(TwoGpus, ASkippedOrOldRunIsReached) {
  const auto event = gpu_[0]->NewEvent();
  const auto stream = NewStream(*gpu_[0]), other = NewStream(*gpu_[1]);
  stream->Record(*event, 5);
  for (uint32_t run : {0u - 1, 0u, 3u, 5u}) {
    ASSERT_TRUE(event->Wait(run, kNever).ok());
    ASSERT_TRUE(other->Wait(*event, run, kNever).ok());
  }
  event->Reset(100);
  ASSERT_TRUE(other->Wait(*event, 100, kNever).ok());
  EXPECT_EQ(event->Wait(101, SteadyNow()).code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(other->Synchronize().ok());
  ASSERT_TRUE(stream->Synchronize().ok());
}

TEST_P(TwoGpus, WhatIsCapturedIsDoneWheneverItIsEnqueued) {
  constexpr size_t kBytes = 1000;
  DeviceMemory from = DeviceMemory::AllocateHost(*gpu_[0], kBytes).value();
  DeviceMemory to = DeviceMemory::AllocateHost(*gpu_[1], kBytes).value();
  DeviceMemory first = DeviceMemory::Allocate(*gpu_[0], kBytes).value();
  DeviceMemory second = DeviceMemory::Allocate(*gpu_[1], kBytes).value();
  const auto a = NewStream(*gpu_[0]), b = NewStream(*gpu_[1], StreamKind::kCopyOut);
  const auto begun = gpu_[0]->NewEvent(), done = gpu_[1]->NewEvent();
  uint32_t run = 0;
  const auto work = [&] {
    ++run;
    ASSERT_TRUE(a->Copy(first.data(), *gpu_[0], from.data(), *host_, kBytes).ok());
    a->Record(*begun, run);
    ASSERT_TRUE(b->Wait(*begun, run, kNever).ok());
    ASSERT_TRUE(b->Copy(second.data(), *gpu_[1], first.data(), *gpu_[0], kBytes).ok());
    ASSERT_TRUE(b->Copy(to.data(), *host_, second.data(), *gpu_[1], kBytes).ok());
    b->Record(*done, run);
    ASSERT_TRUE(a->Wait(*done, run, kNever).ok());
  };
  work();
  ASSERT_TRUE(a->Synchronize().ok());
  ASSERT_TRUE(a->BeginCapture().ok());
  work();
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<CapturedWork> captured, a->EndCapture());
  for (uint8_t value : {3, 200, 77}) {
    std::memset(from.data(), value, kBytes);
    ASSERT_TRUE(captured->Enqueue(*a).ok());
    ASSERT_TRUE(a->Synchronize().ok());
    EXPECT_EQ(std::memcmp(to.data(), from.data(), kBytes), 0) << int{value};
  }
  work();  // the streams and events work uncaptured again
  ASSERT_TRUE(b->Synchronize().ok());
}

// Copies in chunks, in each direction, by a stream of either card.
TEST_P(TwoGpus, LongCopiesBetweenThemAreCaptured) {
  constexpr size_t kBytes = (size_t{5} << 20) + 3;
  DeviceMemory host = DeviceMemory::AllocateHost(*gpu_[0], kBytes).value();
  DeviceMemory blank = DeviceMemory::AllocateHost(*gpu_[0], kBytes).value();
  DeviceMemory first = DeviceMemory::Allocate(*gpu_[0], kBytes).value();
  DeviceMemory second = DeviceMemory::Allocate(*gpu_[1], kBytes).value();
  std::memset(host.data(), 1, kBytes);
  std::memset(blank.data(), 0, kBytes);
  for (int owner : {0, 1}) {
    const auto stream = NewStream(*gpu_[owner]);
    Device &here = *gpu_[owner], &there = *gpu_[1 - owner];
    void* const near = owner == 0 ? first.data() : second.data();
    void* const far = owner == 0 ? second.data() : first.data();
    const auto work = [&] {
      ASSERT_TRUE(stream->Copy(near, here, host.data(), *host_, kBytes).ok());
      ASSERT_TRUE(stream->Copy(far, there, near, here, kBytes).ok());
      ASSERT_TRUE(stream->Copy(near, here, blank.data(), *host_, kBytes).ok());
      ASSERT_TRUE(stream->Copy(near, here, far, there, kBytes).ok());
      ASSERT_TRUE(stream->Copy(host.data(), *host_, near, here, kBytes).ok());
    };
    work();  // sets up everything it needs
    ASSERT_TRUE(stream->Synchronize().ok());
    ASSERT_TRUE(stream->BeginCapture().ok());
    work();
    ASSERT_OK_AND_ASSIGN(auto captured, stream->EndCapture());
    auto* const bytes = static_cast<uint8_t*>(host.data());
    for (uint8_t value : {3, 200}) {
      for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<uint8_t>(i % 251 + value);
      ASSERT_TRUE(captured->Enqueue(*stream).ok());
      ASSERT_TRUE(stream->Synchronize().ok());
      size_t wrong = 0;
      for (size_t i = 0; i < kBytes; ++i) wrong += bytes[i] == static_cast<uint8_t>(i % 251 + value) ? 0 : 1;
      EXPECT_EQ(wrong, 0u);
    }
  }
}

TEST_P(TwoGpus, ACaptureThatIsNotJoinedIsAnError) {
  const auto a = NewStream(*gpu_[0]), b = NewStream(*gpu_[1]);
  const auto begun = gpu_[0]->NewEvent();
  DeviceMemory memory = DeviceMemory::Allocate(*gpu_[1], 100).value();
  DeviceMemory host = DeviceMemory::AllocateHost(*gpu_[1], 100).value();
  ASSERT_TRUE(a->BeginCapture().ok());
  a->Record(*begun, 1);
  ASSERT_TRUE(b->Wait(*begun, 1, kNever).ok());
  ASSERT_TRUE(b->Copy(memory.data(), *gpu_[1], host.data(), *host_, 100).ok());
  EXPECT_FALSE(a->EndCapture().ok());
  EXPECT_TRUE(b->Copy(memory.data(), *gpu_[1], host.data(), *host_, 100).ok());
  EXPECT_TRUE(a->Synchronize().ok());
  EXPECT_TRUE(b->Synchronize().ok());
}

INSTANTIATE_TEST_SUITE_P(Gpu, TwoGpus,
                         testing::Values(Case{"Cards", {.gpu_memory = "128MiB"}},
                                         Case{"ThroughTheHost", {.gpu_memory = "128MiB", .peer_through_host = true}},
                                         Case{"OneCard", {.virtual_gpus = 2, .gpu_memory = "128MiB"}}),
                         [](const auto& info) { return info.param.name; });

TEST(GpuOptionsOnACard, WrongOnesAreErrors) {
  if (const absl::StatusOr<int> gpus = CountGpuDevices({}); !gpus.ok()) GTEST_SKIP() << gpus.status();
  for (const auto& [options, why] :
       {std::pair(DeviceOptions{.visible_gpus = "99"}, "there is no card 99"),
        std::pair(DeviceOptions{.gpu_memory = "1023GiB"}, "gpu_memory='1023GiB' is 1023.0 GiB")}) {
    EXPECT_THAT(DeviceSet::Open("gpu:1", options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  }
}

TEST(GpuOptionsOnACard, CountsAndOpensAllOfThem) {
  const DeviceOptions options = {.virtual_gpus = 3, .gpu_memory = "16MiB"};
  ASSIGN_OR_SKIP(const auto gpus, CountGpuDevices(options));
  EXPECT_EQ(gpus % 3, 0);
  const DeviceSet devices = DeviceSet::Open(absl::StrCat("gpu:", gpus), options).value();
  ASSERT_EQ(devices.size(), gpus + 1);
  for (int id = 0; id < gpus; ++id) {
    EXPECT_EQ(devices.device(1 + id).physical_id(), devices.device(1 + id / 3 * 3).physical_id());
  }
  EXPECT_THAT(DeviceSet::Open(absl::StrCat("gpu:", gpus + 1), options).status().message(),
              HasSubstr(absl::StrCat("Requested ", gpus + 1, " GPUs, but found ", gpus)));
}

}  // namespace
}  // namespace belfry
