// Conformance suite of devices and of their events, for which threads wait.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/steady_time.h"
#include "tests/framework/device/backend.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::HasSubstr;

class DeviceConformance : public testing::TestWithParam<DeviceBackend> {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const auto& [name, reason] : GetParam().cannot) {
      if (test.substr(0, test.find('/')) == name) GTEST_SKIP() << GetParam().name << ": " << reason;
    }
    auto devices = DeviceSet::Open(GetParam().spec, GetParam().options);
    if (!devices.ok()) GTEST_SKIP() << GetParam().name << ": " << devices.status();
    devices_ = *std::move(devices);
    const std::vector<int> towers = devices_.TowerDevices();
    ASSERT_EQ(towers.size(), 2u);
    device_ = &devices_.device(towers[0]);
    other_ = &devices_.device(towers[1]);
    host_ = &devices_.device(0);
  }

  static std::unique_ptr<Stream> NewStream(Device& device, StreamKind kind = StreamKind::kCompute) {
    return ValueOf(device.NewStream(kind));
  }
  static DeviceMemory Allocate(Device& device, size_t bytes) { return ValueOf(DeviceMemory::Allocate(device, bytes)); }

  DeviceSet devices_;
  Device* device_ = nullptr;
  Device* other_ = nullptr;
  Device* host_ = nullptr;
};

TEST_P(DeviceConformance, AClockTellsTheOrderOfWork) {
  constexpr int kStamps = 5;
  const absl::Time before = SteadyNow();
  ASSERT_OK_AND_ASSIGN(auto clock, device_->NewClock(kStamps));
  const std::unique_ptr<Stream> stream = NewStream(*device_), other = NewStream(*device_, StreamKind::kCollective);
  const std::unique_ptr<Event> event = device_->NewEvent();
  const size_t bytes = size_t{1} << 20;
  const DeviceMemory memory = Allocate(*device_, 2 * bytes);
  for (int i = 0; i < kStamps; ++i) {
    Stream& on = i < 3 ? *stream : *other;
    if (i == 3) {
      stream->Record(*event, 1);
      ASSERT_TRUE(other->Wait(*event, 1, kNever).ok());
    }
    auto* const data = static_cast<std::byte*>(memory.data());
    ASSERT_TRUE(on.Copy(data + bytes, *device_, data, *device_, bytes).ok());
    ASSERT_TRUE(clock->Stamp(on, i).ok());
  }
  ASSERT_TRUE(stream->Synchronize().ok());
  ASSERT_TRUE(other->Synchronize().ok());
  // Host and device clocks need not agree to the microsecond.
  const absl::Duration slack = absl::Milliseconds(1);
  absl::Time last = before - slack;
  for (int i = 0; i < kStamps; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto time, clock->Read(i));
    EXPECT_GE(time, last) << i;
    last = time;
  }
  EXPECT_LE(last, SteadyNow() + slack);
}

TEST_P(DeviceConformance, HasAFullNameAndADescription) {
  EXPECT_TRUE(device_->name().IsFull());
  EXPECT_EQ(*device_->name().id, 0);
  EXPECT_EQ(*other_->name().id, 1);
  EXPECT_EQ(device_->type(), other_->type());
  EXPECT_FALSE(device_->description().empty());
  EXPECT_GE(device_->threads(), 1);
}

TEST_P(DeviceConformance, MemoryIsAlignedAndCounted) {
  const DeviceCounters before = device_->counters();
  EXPECT_GT(before.memory_limit, 0u);
  {
    const DeviceMemory nothing = Allocate(*device_, 0);
    EXPECT_EQ(nothing.data(), nullptr);
    EXPECT_EQ(device_->counters().allocations, before.allocations);
    std::vector<DeviceMemory> blocks;
    size_t bytes = 0;
    for (size_t size : {1, 63, 64, 1000, 1 << 20}) {
      blocks.push_back(Allocate(*device_, size));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().data()) % 64, 0u);
      EXPECT_EQ(blocks.back().bytes(), size);
      bytes += size;
    }
    const DeviceCounters now = device_->counters();
    EXPECT_GE(now.bytes_in_use, before.bytes_in_use + bytes);
    EXPECT_GE(now.peak_bytes_in_use, now.bytes_in_use);
    EXPECT_EQ(now.allocations, before.allocations + 5);
    EXPECT_EQ(other_->counters().bytes_in_use, 0u) << "each device has memory of its own";
    DeviceMemory moved = std::move(blocks.front());
    EXPECT_EQ(device_->counters().bytes_in_use, now.bytes_in_use);
  }
  const DeviceCounters after = device_->counters();
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_GE(after.peak_bytes_in_use, before.bytes_in_use + (1 << 20));
}

TEST_P(DeviceConformance, RefusesMoreThanThereIs) {
  const DeviceCounters before = device_->counters();
  for (size_t bytes : {before.memory_limit + 1, std::numeric_limits<size_t>::max()}) {
    const absl::Status status = device_->Allocate(bytes).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(device_->name().ToString())));
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(bytes)));
  }
  EXPECT_EQ(device_->counters().bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(device_->counters().allocations, before.allocations);
}

TEST_P(DeviceConformance, RefusesASumThatIsTooLarge) {
  const DeviceMemory first = Allocate(*device_, 1 << 20);
  const DeviceCounters before = device_->counters();
  EXPECT_THAT(device_->Allocate(before.memory_limit - (1 << 19)).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(absl::StrCat(before.bytes_in_use))));
  EXPECT_EQ(device_->counters().bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(device_->counters().peak_bytes_in_use, before.peak_bytes_in_use);
}

TEST_P(DeviceConformance, CountersHoldUnderThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 1; i < 200; ++i) Allocate(*device_, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device_->counters().bytes_in_use, 0u);
  EXPECT_EQ(device_->counters().allocations, 4 * 199);
}

TEST_P(DeviceConformance, CopiesBetweenDevicesAndHost) {
  std::mt19937 random{TestSeed()};
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{4097}, size_t{1} << 20}) {
    std::vector<uint8_t> sent(bytes), received(bytes, 0);
    for (uint8_t& byte : sent) byte = static_cast<uint8_t>(random());
    const DeviceMemory a = Allocate(*device_, bytes), b = Allocate(*other_, bytes), c = Allocate(*other_, bytes);
    const auto in = NewStream(*device_, StreamKind::kCopyIn), out = NewStream(*other_, StreamKind::kCopyOut);
    const auto event = device_->NewEvent();
    ASSERT_TRUE(in->Copy(a.data(), *device_, sent.data(), *host_, bytes).ok());
    ASSERT_TRUE(in->Copy(b.data(), *other_, a.data(), *device_, bytes).ok());
    in->Record(*event, 1);
    ASSERT_TRUE(out->Wait(*event, 1, kNever).ok());
    ASSERT_TRUE(out->Copy(c.data(), *other_, b.data(), *other_, bytes).ok());
    ASSERT_TRUE(out->Copy(received.data(), *host_, c.data(), *other_, bytes).ok());
    ASSERT_TRUE(out->Synchronize().ok());
    ASSERT_TRUE(in->Synchronize().ok());
    EXPECT_EQ(sent, received);
  }
}

TEST_P(DeviceConformance, AnEventMayGoBeforeTheWorkThatUsesIt) {
  const size_t bytes = size_t{1} << 16;
  const DeviceMemory a = Allocate(*device_, bytes), b = Allocate(*other_, bytes);
  const auto in = NewStream(*device_, StreamKind::kCopyIn), out = NewStream(*other_, StreamKind::kCopyOut);
  std::vector<uint8_t> sent(bytes), received(bytes);
  for (uint8_t value = 1; value < 40; ++value) {
    std::fill(sent.begin(), sent.end(), value);
    auto event = device_->NewEvent();
    ASSERT_TRUE(in->Copy(a.data(), *device_, sent.data(), *host_, bytes).ok());
    ASSERT_TRUE(in->Copy(b.data(), *other_, a.data(), *device_, bytes).ok());
    in->Record(*event, 1);
    ASSERT_TRUE(out->Wait(*event, 1, kNever).ok());
    event.reset();
    ASSERT_TRUE(out->Copy(received.data(), *host_, b.data(), *other_, bytes).ok());
    ASSERT_TRUE(out->Synchronize().ok());
    ASSERT_EQ(sent, received);
  }
}

TEST_P(DeviceConformance, StreamsKeepTheirKind) {
  for (StreamKind kind : {StreamKind::kCompute, StreamKind::kCopyIn, StreamKind::kCopyOut, StreamKind::kCollective}) {
    EXPECT_EQ(NewStream(*device_, kind)->kind(), kind);
  }
}

TEST_P(DeviceConformance, AnEventReachesRunsInOrder) {
  const auto event = device_->NewEvent();
  event->Record(3);
  const absl::Time soon = SteadyNow() + absl::Milliseconds(5);
  EXPECT_TRUE(event->Wait(2, kNever).ok());
  EXPECT_TRUE(event->Wait(3, kNever).ok());
  EXPECT_EQ(event->Wait(4, soon).code(), absl::StatusCode::kDeadlineExceeded);
  event->Record(4);
  EXPECT_TRUE(event->Wait(4, kNever).ok());
  EXPECT_TRUE(event->Wait(4, absl::InfinitePast()).ok()) << "what is reached is not late";
}

TEST_P(DeviceConformance, AWaitEndsAtItsDeadline) {
  const auto event = device_->NewEvent();
  for (absl::Duration wait : {absl::Seconds(-1), absl::ZeroDuration(), absl::Milliseconds(20)}) {
    const absl::Time deadline = SteadyNow() + wait;
    EXPECT_EQ(event->Wait(1, deadline).code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_GE(SteadyNow(), deadline);
  }
}

// Two threads take turns; `data` is plain memory whose accesses the events must order.
TEST_P(DeviceConformance, PingPongOver10000Runs) {
  const auto ping = device_->NewEvent(), pong = other_->NewEvent();
  constexpr uint32_t kRuns = 10'000;
  int64_t data = 0;
  std::thread other([&] {
    for (uint32_t run = 1; run <= kRuns; ++run) {
      ASSERT_TRUE(ping->Wait(run, kNever).ok());
      data = 2 * run;
      pong->Record(run);
    }
  });
  for (uint32_t run = 1; run <= kRuns; ++run) {
    data = run;
    ping->Record(run);
    ASSERT_TRUE(pong->Wait(run, kNever).ok());
    ASSERT_EQ(data, 2 * run);
  }
  other.join();
}

TEST_P(DeviceConformance, RunsWrapAround) {
  const auto event = device_->NewEvent(), back = device_->NewEvent();
  const uint32_t first = 0u - 500;
  event->Reset(first);
  back->Reset(first);
  EXPECT_TRUE(event->Wait(first, kNever).ok());
  EXPECT_TRUE(event->Wait(first - 1, kNever).ok());
  EXPECT_EQ(event->Wait(first + 1, SteadyNow()).code(), absl::StatusCode::kDeadlineExceeded);
  std::thread other([&] {
    for (uint32_t i = 1; i <= 1000; ++i) {
      ASSERT_TRUE(event->Wait(first + i, kNever).ok());
      back->Record(first + i);
    }
  });
  for (uint32_t i = 1; i <= 1000; ++i) {
    event->Record(first + i);
    ASSERT_TRUE(back->Wait(first + i, kNever).ok());
  }
  other.join();
  EXPECT_TRUE(event->Wait(first, kNever).ok()) << "a run from before the wrap is reached";
}

TEST_P(DeviceConformance, ManyWaitersAreWokenByOneRecord) {
  const auto event = device_->NewEvent();
  for (uint32_t run = 1; run <= 50; ++run) {
    std::atomic<int> woken{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 6; ++i) {
      waiters.emplace_back([&] {
        if (event->Wait(run, SteadyNow() + absl::Seconds(60)).ok()) ++woken;
      });
    }
    if (run % 2 == 0) absl::SleepFor(absl::Milliseconds(1));
    event->Record(run);
    for (std::thread& waiter : waiters) waiter.join();
    ASSERT_EQ(woken, 6);
  }
}

TEST_P(DeviceConformance, CancelWakesWaitersUntilReset) {
  const auto event = device_->NewEvent();
  for (uint32_t round = 1; round <= 20; ++round) {
    std::atomic<int> cancelled{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.emplace_back([&] {
        if (event->Wait(round, kNever).code() == absl::StatusCode::kCancelled) ++cancelled;
      });
    }
    if (round % 2 == 0) absl::SleepFor(absl::Milliseconds(2));
    event->Cancel();
    for (std::thread& waiter : waiters) waiter.join();
    ASSERT_EQ(cancelled, 3);
    EXPECT_EQ(event->Wait(round, kNever).code(), absl::StatusCode::kCancelled) << "it stays cancelled";
    event->Reset(round);
    EXPECT_TRUE(event->Wait(round, kNever).ok());
    EXPECT_EQ(event->Wait(round + 1, SteadyNow()).code(), absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_P(DeviceConformance, StreamsPassOnCancelAndDeadline) {
  const auto event = device_->NewEvent();
  const auto stream = NewStream(*other_);
  if (!other_->asynchronous()) {
    EXPECT_EQ(stream->Wait(*event, 1, SteadyNow()).code(), absl::StatusCode::kDeadlineExceeded);
  }
  event->Cancel();
  EXPECT_EQ(stream->Wait(*event, 1, kNever).code(), absl::StatusCode::kCancelled);
  event->Reset(7);
  EXPECT_TRUE(stream->Wait(*event, 7, kNever).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
}

INSTANTIATE_TEST_SUITE_P(Backends, DeviceConformance, testing::ValuesIn(DeviceBackends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace belfry
