// The rules of CUDA for captures, as fakes of GPUs keep them.
#include "tests/fake_gpu/fake_gpu.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "framework/device/device.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

class FakeGpuCapture : public testing::Test {
 protected:
  // Adds a letter to `text_` when the stream comes to it.
  void Write(Stream& stream, char letter) {
    EnqueueOnFakeGpu(stream, [this, letter] {
      text_ += letter;
      return absl::OkStatus();
    });
  }
  // Begins a capture of `first_` in which `second_` takes part.
  void Fork() {
    ASSERT_TRUE(first_->BeginCapture().ok());
    first_->Record(*forked_, 1);
    ASSERT_TRUE(second_->Wait(*forked_, 1, absl::InfiniteFuture()).ok());
  }
  void Join() {
    second_->Record(*joined_, 1);
    ASSERT_TRUE(first_->Wait(*joined_, 1, absl::InfiniteFuture()).ok());
  }

  DeviceSet devices_ = OpenFakeGpus(1);
  Device& gpu_ = devices_.device(1);
  const std::unique_ptr<Stream> first_ = *gpu_.NewStream(StreamKind::kCompute);
  const std::unique_ptr<Stream> second_ = *gpu_.NewStream(StreamKind::kCollective);
  const std::unique_ptr<Event> forked_ = gpu_.NewEvent(), joined_ = gpu_.NewEvent();
  std::string text_;
};

// Threads of the host are woken; work on streams goes on waiting for what was enqueued.
TEST_F(FakeGpuCapture, CancelledEventsHoldStreams) {
  std::atomic<bool> open{false};
  EnqueueOnFakeGpu(*first_, [&] {
    while (!open) std::this_thread::yield();
    text_ += 'a';
    return absl::OkStatus();
  });
  first_->Record(*forked_, 1);
  ASSERT_TRUE(second_->Wait(*forked_, 1, absl::InfiniteFuture()).ok());
  Write(*second_, 'b');
  forked_->Cancel();
  EXPECT_EQ(forked_->Wait(1, absl::InfiniteFuture()).code(), absl::StatusCode::kCancelled);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  open = true;
  EXPECT_TRUE(first_->Synchronize().ok());
  EXPECT_TRUE(second_->Synchronize().ok());
  EXPECT_EQ(text_, "ab");
}

TEST_F(FakeGpuCapture, IsReplayedInEveryOrderThatItAllows) {
  Write(*first_, 'x');
  Fork();
  Write(*first_, 'a');
  Write(*second_, 'b');
  Join();
  CaptureTogether({first_.get(), second_.get()}, [this] {
    text_ += 'c';
    return absl::OkStatus();
  });
  Write(*first_, 'd');
  Write(*second_, 'e');
  second_->Record(*joined_, 2);
  ASSERT_TRUE(first_->Wait(*joined_, 2, absl::InfiniteFuture()).ok());
  ASSERT_OK_AND_ASSIGN(auto work, first_->EndCapture());
  ASSERT_TRUE(first_->Synchronize().ok());
  EXPECT_EQ(text_, "x") << "what was captured has not run";
  const FakeGpuLaunches before = LaunchesOn(gpu_);
  std::set<std::string> texts;
  for (int i = 0; i < 200; ++i) {
    text_.clear();
    ASSERT_TRUE(work->Enqueue(*first_).ok());
    ASSERT_TRUE(first_->Synchronize().ok());
    texts.insert(text_);
  }
  EXPECT_EQ(texts, (std::set<std::string>{"abcde", "abced", "bacde", "baced"}));
  EXPECT_EQ(LaunchesOn(gpu_).graphs, before.graphs + 200);
  EXPECT_EQ(LaunchesOn(gpu_).kernels, before.kernels);
  FailNextGraph(gpu_);
  text_.clear();
  EXPECT_FALSE(work->Enqueue(*first_).ok());
  ASSERT_TRUE(first_->Synchronize().ok());
  EXPECT_EQ(text_, "");
}

TEST_F(FakeGpuCapture, MustBeJoined) {
  Fork();
  Write(*second_, 'b');
  EXPECT_FALSE(first_->EndCapture().ok());
  Fork();
  Write(*second_, 'b');
  second_->Record(*joined_, 1);
  EXPECT_FALSE(first_->EndCapture().ok()) << "recorded, but not waited for";
  Fork();
  Join();
  Write(*second_, 'b');
  EXPECT_FALSE(first_->EndCapture().ok()) << "work after the record";
  Fork();
  Write(*second_, 'b');
  Join();
  EXPECT_TRUE(first_->EndCapture().ok());
}

TEST_F(FakeGpuCapture, ForbidsItsThreadToAllocateToWaitAndToAsk) {
  second_->Record(*joined_, 1);
  const std::vector<std::function<bool()>> calls = {
      [&] { return gpu_.Allocate(64).ok(); },
      [&] { return gpu_.AllocateHost(64).ok(); },
      [&] { return first_->Synchronize().ok(); },
      [&] { return second_->Synchronize().ok(); },
      [&] { return first_->Error().ok(); },
      [&] { return second_->Error().ok(); },
      [&] { return joined_->Wait(1, absl::InfiniteFuture()).ok(); },
      [&] { return second_->BeginCapture().ok(); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    ASSERT_TRUE(first_->BeginCapture().ok());
    EXPECT_FALSE(calls[i]()) << i;
    EXPECT_EQ(first_->EndCapture().ok(), i + 1 == calls.size()) << i;
  }
  ASSERT_TRUE(first_->BeginCapture().ok());
  std::thread([&] {
    EXPECT_TRUE(joined_->Wait(1, absl::InfiniteFuture()).ok());
    EXPECT_TRUE(second_->Synchronize().ok());
    EXPECT_FALSE(first_->EndCapture().ok());
  }).join();
  EXPECT_TRUE(first_->EndCapture().ok());
}

TEST_F(FakeGpuCapture, LeavesEventsThatMustBeRecordedAgain) {
  ASSERT_TRUE(first_->BeginCapture().ok());
  first_->Record(*forked_, 1);
  ASSERT_TRUE(first_->EndCapture().ok());
  EXPECT_FALSE(second_->Wait(*forked_, 1, absl::InfiniteFuture()).ok());
  EXPECT_FALSE(forked_->Wait(1, absl::InfiniteFuture()).ok());
  first_->Record(*forked_, 2);
  EXPECT_TRUE(second_->Wait(*forked_, 2, absl::InfiniteFuture()).ok());
  EXPECT_TRUE(forked_->Wait(2, absl::InfiniteFuture()).ok());
}

}  // namespace
}  // namespace belfry
