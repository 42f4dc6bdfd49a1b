#include <atomic>
#include <cstdlib>
#include <new>
#include <set>

#include "framework/data/in_memory.h"
#include "framework/data/prefetcher.h"
#include "tests/main/testing.h"

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

// Replaced for the whole test program, to count allocations. Where only one of a pair is inlined, GCC warns that they
// do not match.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace belfry::data {
namespace {

TEST(Prefetcher, AllocatesNothingAfterTheRingHasGoneRound) {
  ASSERT_OK_AND_ASSIGN(const auto images, FromTensors({{"image", Tensor::Zeros(DType::kUInt8, {50, 32, 32, 3})},
                                                       {"label", Tensor::Zeros(DType::kInt32, {50}), 10}}));
  for (int threads : {0, 2}) {
    PrefetcherOptions options{.batch_size = 8, .towers = 3, .threads = threads, .depth = 2};
    options.images["image"] = TutorialTraining();
    ASSERT_OK_AND_ASSIGN(auto prefetcher, Prefetcher::Create(*images, options));
    std::set<const void*> buffers;
    const auto run = [&](int steps, bool known) {
      for (int i = 0; i < steps; ++i) {
        ASSERT_OK_AND_ASSIGN(auto batch, prefetcher->Next());
        const void* inputs = batch.towers()[0].fields[0].raw();
        if (known) {
          EXPECT_TRUE(buffers.contains(inputs));
        } else {
          buffers.insert(inputs);
        }
      }
    };
    // 3 slots and 7 batches per epoch: after 21 batches each slot has held a last batch too.
    run(30, false);
    const int64_t before = allocations;
    run(100, true);
    EXPECT_EQ(allocations - before, 0) << threads << " threads";
    EXPECT_EQ(buffers.size(), 6u);
  }
}

}  // namespace
}  // namespace belfry::data
