// The parts of the fake of CUDA's runtime. Internal to it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/main/seed.h"

namespace belfry::fake_cuda {

constexpr size_t kMemory = size_t{1} << 30;
constexpr uintptr_t kTag = uintptr_t{1} << 62;  // no host address has this bit

struct CardState {
  std::map<uintptr_t, size_t> blocks;
  std::set<int> peers;
  size_t used = 0;
  cudaError_t broken = cudaSuccess;
  bool context = false;
};

// One record of an event.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  std::chrono::steady_clock::time_point when;

  void Reach() {
    const std::lock_guard<std::mutex> lock(mutex);
    reached = true;
    when = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  void Await() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  bool Reached() {
    const std::lock_guard<std::mutex> lock(mutex);
    return reached;
  }
};

struct World {
  std::recursive_mutex mutex;
  std::vector<CardState> cards = std::vector<CardState>(1);
  cudaError_t count_error = cudaSuccess;
  int driver = CUDART_VERSION, capability = kCapability;
  PeerPath path = PeerPath::kGood;
  int peer_copies = 0, handles = 0, records = 0;
  std::map<uintptr_t, size_t> host_blocks;
  size_t host_used = 0;
  std::map<std::string, cudaError_t> failures;
};

inline World& world() {
  static World* const world = new World;
  return *world;
}

inline thread_local int current = 0;
inline thread_local cudaError_t last_error = cudaSuccess;

inline cudaError_t Done(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// As in CUDA, any call creates a context on the current device.
inline void Touch() {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  world().cards[current].context = true;
}

// The error that a test asked for, or that of a broken card.
inline cudaError_t Trouble(const char* call, int card) {
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  Touch();
  if (const auto found = world().failures.find(call); found != world().failures.end()) {
    const cudaError_t error = found->second;
    world().failures.erase(found);
    return error;
  }
  if (card < 0 || card >= static_cast<int>(world().cards.size())) return cudaErrorInvalidDevice;
  return world().cards[card].broken;
}

inline std::byte* RealOf(const void* memory) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(memory) & ~kTag);
}

// The card that owns [memory, memory + bytes); -1 for host memory, -2 for neither.
inline int OwnerOf(const void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if ((address & kTag) == 0) return -1;
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  for (size_t card = 0; card < world().cards.size(); ++card) {
    auto next = world().cards[card].blocks.upper_bound(address);
    if (next == world().cards[card].blocks.begin()) continue;
    --next;
    if (address + bytes <= next->first + next->second) return static_cast<int>(card);
  }
  return -2;
}

inline bool IsPinned(const void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard<std::recursive_mutex> lock(world().mutex);
  auto next = world().host_blocks.upper_bound(address);
  if (next == world().host_blocks.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second;
}

}  // namespace belfry::fake_cuda

// Work given to streams while one of them captured. Used by the capturing thread.
struct CUgraph_st {
  std::vector<std::function<void()>> work;
  bool invalid = false;                 // a call that a capture forbids was made
  std::map<cudaStream_t, bool> others;  // streams that joined the capture; true if their last operation was a record
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};

namespace belfry::fake_cuda {

// The capture that this thread has begun and not ended.
inline thread_local std::shared_ptr<CUgraph_st> own_capture;

// The error of calls that a capture forbids (cudaThreadExchangeStreamCaptureMode in the CUDA Runtime API): none outside
// of one. It makes the capture invalid.
inline cudaError_t Forbidden(const std::shared_ptr<CUgraph_st>& capture = own_capture) {
  if (capture == nullptr) return cudaSuccess;
  capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace belfry::fake_cuda

struct CUstream_st {
  CUstream_st(int on, int given) : card(on), priority(given), thread([this] { Work(); }) {}
  ~CUstream_st() {
    Enqueue(nullptr);
    thread.join();
  }
  void Enqueue(std::function<void()> work) {
    if (capture != nullptr) {
      if (const auto other = capture->others.find(this); other != capture->others.end()) other->second = false;
      return capture->work.push_back(std::move(work));
    }
    const std::lock_guard<std::mutex> lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  bool Idle() {
    const std::lock_guard<std::mutex> lock(mutex);
    return queue.empty() && !busy;
  }
  void Drain() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return queue.empty() && !busy; });
  }
  void Work() {
    std::minstd_rand random(belfry::TestSeed());
    while (true) {
      std::function<void()> work;
      {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&] { return !queue.empty(); });
        work = std::move(queue.front());
        queue.pop_front();
        busy = true;
      }
      if (work == nullptr) return;
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 60));
      work();
      const std::lock_guard<std::mutex> lock(mutex);
      busy = false;
      changed.notify_all();
    }
  }

  const int card, priority;
  std::shared_ptr<CUgraph_st> capture;  // null: work runs at once
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false;
  std::thread thread;
};

struct CUevent_st {
  int card;
  bool timed;
  std::shared_ptr<belfry::fake_cuda::Mark> mark;  // the last record; guarded by the world's mutex
  bool captured;                                  // last recorded in a capture,
  std::weak_ptr<CUgraph_st> capture;              // this one, if it has not ended
};
