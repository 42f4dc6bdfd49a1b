// The real NCCL, on as many GPUs as the machine has.
#include "framework/collective/nccl.h"
#include "tests/fake_gpu/test_gpus.h"
#include "tests/framework/collective/meeting.h"

namespace belfry {
namespace {

template <class T>
class GpuNccl : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(GpuNccl, Types);

TYPED_TEST(GpuNccl, AveragesAddsUpAndBroadcasts) {
  if (const auto gpus = OpenTestCards(1); !gpus.ok()) GTEST_SKIP() << gpus.status();
  const CollectiveBackend backend{.name = "Nccl",
                                  .open = OpenTestCards,
                                  .make = [](CollectiveSpec spec) { return NcclFactory()(std::move(spec)); },
                                  .one_rank_each = true,
                                  .cannot = {}};
  std::mt19937 random(7);
  for (int ranks : {1, 2, 4, 8}) {
    const auto gpus = OpenTestCards(ranks);
    if (!gpus.ok()) break;
    for (CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum, CollectiveKind::kBroadcast}) {
      Meeting<TypeParam> meeting(backend, {kind, ranks, ranks, 1001});
      for (uint32_t run = 1; run <= 3; ++run) {
        meeting.Fill(true, random);
        for (int r = 0; r < ranks; ++r) meeting.weights[r] = static_cast<float>(run == 1 ? 64 : r + run);
        const auto before = meeting.data;
        for (const absl::Status& status : meeting.Run(run)) ASSERT_TRUE(status.ok()) << status;
        for (int64_t i = 0; i < 1001; ++i) {
          const double expected = Expected(kind, before, meeting.weights, i);
          for (const auto& rank : meeting.data)
            ASSERT_NEAR(static_cast<double>(rank[i]), expected, sizeof(TypeParam) == 2 ? 0.3 : 1e-4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace belfry
