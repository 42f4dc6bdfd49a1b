#include "framework/device/caching_allocator.h"
#include "tests/framework/device/backend.h"
#include "tests/main/testing.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Host memory, so that sanitizers catch the allocator's mistakes.
class HostSource final : public BlockSource {
 public:
  explicit HostSource(size_t most = std::numeric_limits<size_t>::max()) : most_(most) {}
  ~HostSource() override { EXPECT_EQ(held_, 0u); }
  absl::StatusOr<void*> Get(size_t bytes) override {
    asked_.push_back(bytes);
    if (bytes > most_ - held_) return absl::ResourceExhaustedError("the host is full");
    held_ += bytes;
    EXPECT_EQ(bytes % 256, 0u);
    return std::aligned_alloc(256, bytes);
  }
  void Return(void* block, size_t bytes) override {
    held_ -= bytes;
    std::free(block);
  }
  size_t held() const { return held_; }
  const std::vector<size_t>& asked() const { return asked_; }

 private:
  const size_t most_;
  size_t held_ = 0;
  std::vector<size_t> asked_;
};

void* Get(CachingAllocator& allocator, size_t bytes) { return ValueOf(allocator.Allocate(bytes)); }

TEST(CachingAllocator, NothingForNothing) {
  HostSource source;
  CachingAllocator allocator(source, "it", 8 * kMi);
  EXPECT_EQ(Get(allocator, 0), nullptr);
  allocator.Deallocate(nullptr);
  EXPECT_EQ(allocator.counters().allocations, 0);
  EXPECT_EQ(source.held(), 0u);
}

TEST(CachingAllocator, KeepsWhatIsGivenBack) {
  HostSource source;
  CachingAllocator allocator(source, "it", 8 * kMi);
  void* const first = Get(allocator, 1000);
  EXPECT_EQ(source.asked(), std::vector<size_t>{2 * kMi});
  allocator.Deallocate(first);
  EXPECT_EQ(Get(allocator, 2 * kMi), first) << "the pieces are one again";
  allocator.Deallocate(first);
  EXPECT_EQ(source.asked().size(), 1u);
  EXPECT_EQ(allocator.reserved(), 2 * kMi);
}

TEST(CachingAllocator, TakesTheSmallestPieceThatFits) {
  HostSource source;
  CachingAllocator allocator(source, "it", 8 * kMi);
  void* const large = Get(allocator, 4096);
  void* const between = Get(allocator, 256);
  void* const small = Get(allocator, 1024);
  void* const last = Get(allocator, 256);
  allocator.Deallocate(large);
  allocator.Deallocate(small);
  EXPECT_EQ(Get(allocator, 900), small);
  EXPECT_EQ(Get(allocator, 1100), large);
  for (void* memory : {between, last, small, large}) allocator.Deallocate(memory);
  EXPECT_EQ(allocator.counters().bytes_in_use, 0u);
}

TEST(CachingAllocator, BlocksGrowAndLargeOnesFit) {
  HostSource source;
  CachingAllocator allocator(source, "it", 1024 * kMi);
  std::vector<void*> all;
  for (int i = 0; i < 4; ++i) all.push_back(Get(allocator, 2 * kMi));
  all.push_back(Get(allocator, 300 * kMi));
  EXPECT_EQ(source.asked(), (std::vector<size_t>{2 * kMi, 4 * kMi, 8 * kMi, 300 * kMi}));
  for (void* memory : all) allocator.Deallocate(memory);
}

TEST(CachingAllocator, TheLimitIsNamedWithTheFigures) {
  HostSource source;
  CachingAllocator allocator(source, "/gpu:7", 4 * kMi);
  void* const first = Get(allocator, kMi);
  EXPECT_THAT(
      allocator.Allocate(3 * kMi + 1).status(),
      StatusIs(absl::StatusCode::kResourceExhausted, AllOf(HasSubstr("/gpu:7 cannot allocate 3145729 bytes"),
                                                           HasSubstr("1048576 of its limit of 4194304 bytes"))));
  EXPECT_FALSE(allocator.Allocate(std::numeric_limits<size_t>::max()).ok());
  EXPECT_FALSE(allocator.Allocate(std::numeric_limits<size_t>::max() - 100).ok());
  EXPECT_EQ(allocator.counters().allocations, 1);
  EXPECT_EQ(allocator.counters().bytes_in_use, kMi);
  EXPECT_LE(source.held(), 4 * kMi);
  allocator.Deallocate(first);
}

TEST(CachingAllocator, FreeBlocksGiveWayToALargerOne) {
  HostSource source;
  CachingAllocator allocator(source, "it", 8 * kMi);
  void* const small = Get(allocator, kMi);
  allocator.Deallocate(small);
  void* const large = Get(allocator, 8 * kMi);
  EXPECT_EQ(source.held(), 8 * kMi);
  allocator.Deallocate(large);
  EXPECT_EQ(allocator.counters().peak_bytes_in_use, 8 * kMi);
}

TEST(CachingAllocator, MakesDoWithWhatTheSourceHas) {
  HostSource source(3 * kMi);
  CachingAllocator allocator(source, "it", 100 * kMi);
  void* const first = Get(allocator, 2 * kMi);
  void* const second = Get(allocator, 1000);  // A block of 4 MiB is refused.
  EXPECT_THAT(allocator.Allocate(2 * kMi).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the host is full")));
  allocator.Deallocate(first);
  allocator.Deallocate(second);
  allocator.Deallocate(Get(allocator, 3 * kMi));
}

TEST(CachingAllocator, ReservesAllAtOnce) {
  HostSource source(6 * kMi);
  {
    CachingAllocator allocator(source, "it", 4 * kMi);
    ASSERT_TRUE(allocator.Reserve().ok());
    ASSERT_TRUE(allocator.Reserve().ok());
    EXPECT_EQ(source.held(), 4 * kMi);
    EXPECT_EQ(allocator.counters().bytes_in_use, 0u);
    void* const half = Get(allocator, 2 * kMi);
    void* const rest = Get(allocator, 2 * kMi);
    EXPECT_EQ(source.asked().size(), 1u);
    CachingAllocator second(source, "another", 4 * kMi);
    EXPECT_THAT(second.Reserve().message(), HasSubstr("another cannot allocate 4194304 bytes"));
    allocator.Deallocate(half);
    allocator.Deallocate(rest);
  }
  EXPECT_EQ(source.held(), 0u);
}

TEST(CachingAllocator, AFragmentedLimitSaysSo) {
  HostSource source;
  CachingAllocator allocator(source, "it", 4 * kMi);
  ASSERT_TRUE(allocator.Reserve().ok());
  std::vector<void*> quarters;
  for (int i = 0; i < 4; ++i) quarters.push_back(Get(allocator, kMi));
  allocator.Deallocate(quarters[0]);
  allocator.Deallocate(quarters[2]);
  EXPECT_THAT(allocator.Allocate(2 * kMi).status().message(), HasSubstr("largest free piece"));
  allocator.Deallocate(quarters[1]);
  void* const three = Get(allocator, 3 * kMi);
  EXPECT_EQ(three, quarters[0]);
  allocator.Deallocate(three);
  allocator.Deallocate(quarters[3]);
}

// Every allocation is filled with its own pattern, which must be intact when it is freed.
TEST(CachingAllocator, AgainstAModel) {
  struct Block {
    unsigned char* data;
    size_t bytes;
    unsigned char fill;
  };
  HostSource source;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    CachingAllocator allocator(source, "it", 16 * kMi);
    if (seed % 2 == 1) {
      ASSERT_TRUE(allocator.Reserve().ok());
    }
    std::vector<Block> blocks;
    size_t in_use = 0, peak = 0;
    int64_t allocations = 0;
    for (int step = 0; step < 20'000; ++step) {
      const bool filling = step % 4000 < 2500;
      if (blocks.empty() || random() % 100 < (filling ? 60u : 40u)) {
        const size_t bytes = 1 + random() % (size_t{1} << (4 + random() % 17));
        const absl::StatusOr<void*> memory = allocator.Allocate(bytes);
        const size_t rounded = (bytes + 255) / 256 * 256;
        if (!memory.ok()) {
          ASSERT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
          continue;
        }
        const Block block{static_cast<unsigned char*>(*memory), bytes, static_cast<unsigned char>(random())};
        ASSERT_EQ(reinterpret_cast<uintptr_t>(block.data) % 256, 0u);
        std::memset(block.data, block.fill, bytes);
        blocks.push_back(block);
        in_use += rounded;
        peak = std::max(peak, in_use);
        ++allocations;
      } else {
        const size_t at = random() % blocks.size();
        const Block block = blocks[at];
        blocks[at] = blocks.back();
        blocks.pop_back();
        ASSERT_EQ(std::count(block.data, block.data + block.bytes, block.fill), static_cast<ptrdiff_t>(block.bytes));
        allocator.Deallocate(block.data);
        in_use -= (block.bytes + 255) / 256 * 256;
      }
      const DeviceCounters counters = allocator.counters();
      ASSERT_EQ(counters.bytes_in_use, in_use);
      ASSERT_EQ(counters.peak_bytes_in_use, peak);
      ASSERT_EQ(counters.allocations, allocations);
      ASSERT_LE(in_use, allocator.reserved());
      ASSERT_LE(allocator.reserved(), 16 * kMi);
      ASSERT_EQ(allocator.reserved(), source.held());
    }
    for (const Block& block : blocks) allocator.Deallocate(block.data);
    allocator.Deallocate(Get(allocator, 16 * kMi));
  }
}

TEST(CachingAllocator, UnderThreads) {
  HostSource source;
  CachingAllocator allocator(source, "it", 64 * kMi);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = 1 + random() % 10'000;
        void* const memory = Get(allocator, bytes);
        std::memset(memory, t, bytes);
        for (size_t k = 0; k < bytes; k += 97) ASSERT_EQ(static_cast<unsigned char*>(memory)[k], t);
        allocator.Deallocate(memory);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.counters().bytes_in_use, 0u);
  EXPECT_EQ(allocator.counters().allocations, 8000);
}

}  // namespace
}  // namespace belfry
