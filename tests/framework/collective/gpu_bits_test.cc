// The local averager on GPUs gives the CPU's bits.
#include <cstring>

#include "tests/fake_gpu/test_gpus.h"
#include "tests/framework/collective/meeting.h"

namespace belfry {
namespace {

const CollectiveBackend kOnGpus{.name = "Gpu", .open = OpenTestGpus, .make = MakeLocalCollective, .cannot = {}};

template <class T>
class GpuBits : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(GpuBits, Types);

TYPED_TEST(GpuBits, AreTheCpus) {
  constexpr int kMaxGpus = 3;
  if (const auto gpus = OpenTestGpus(kMaxGpus); !gpus.ok()) GTEST_SKIP() << gpus.status();
  std::mt19937 random(7);
  const std::vector<float> weights[] = {{1, 1, 1, 1, 1}, {3, 1, 0, 7, 0.1f}, {64, 64, 64, 64, 63}, {0, 0, 0, 5, 0}};
  for (CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum, CollectiveKind::kBroadcast}) {
    for (int participants = 1; participants <= kMaxGpus; ++participants) {
      for (int64_t elements : {0, 1, 2, 7, 1000, 2531}) {
        const MeetingSpec spec{kind, participants, 5, elements};
        Meeting<TypeParam> cpu(CpuBackend(), spec), gpu(kOnGpus, spec);
        uint32_t run = 0;
        for (const std::vector<float>& weight : weights) {
          cpu.weights = gpu.weights = weight;
          cpu.Fill(false, random);
          for (auto& rank : cpu.data) {
            for (TypeParam& x : rank) {
              x = static_cast<TypeParam>(std::ldexp(static_cast<float>(x), static_cast<int>(random() % 12) - 6));
            }
          }
          gpu.data = cpu.data;
          ++run;
          for (const absl::Status& status : cpu.Run(run)) ASSERT_TRUE(status.ok()) << status;
          for (const absl::Status& status : gpu.Run(run)) ASSERT_TRUE(status.ok()) << status;
          for (int r = 0; r < 5 && elements > 0; ++r) {
            ASSERT_EQ(std::memcmp(cpu.data[r].data(), gpu.data[r].data(), elements * sizeof(TypeParam)), 0)
                << "kind " << static_cast<int>(kind) << ", " << participants << " GPUs, " << elements << " elements";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace belfry
