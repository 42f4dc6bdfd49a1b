// The local averager among GPUs that cannot all access each other's memory.
#include <cstring>
#include <utility>

#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/meeting.h"

namespace belfry {
namespace {

using Apart = std::vector<std::pair<int, int>>;

CollectiveBackend OnGpus(const Apart& apart) {
  return {
      .name = "Apart",
      .open = [apart](int gpus) -> absl::StatusOr<DeviceSet> { return OpenFakeGpus(gpus, /*tagged=*/false, apart); },
      .make = MakeLocalCollective,
      .cannot = {}};
}

struct Machine {
  const char* name;
  int gpus;
  Apart apart;
};
const Machine kMachines[] = {
    {"two apart", 2, {{0, 1}}},
    {"a chain of three", 3, {{0, 2}}},
    {"one alone", 3, {{0, 1}, {2, 1}}},
    {"three apart", 3, {{0, 1}, {0, 2}, {1, 2}}},
    {"two pairs", 4, {{0, 2}, {0, 3}, {1, 2}, {1, 3}}},
    {"a ring of four", 4, {{0, 2}, {1, 3}}},
};

template <class T>
class GpusApart : public testing::Test {};
using Types = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(GpusApart, Types);

TYPED_TEST(GpusApart, HaveTheBitsOfCpus) {
  std::mt19937 random(11);
  for (const Machine& machine : kMachines) {
    for (CollectiveKind kind : {CollectiveKind::kMean, CollectiveKind::kSum, CollectiveKind::kBroadcast}) {
      for (int ranks : {machine.gpus, 2 * machine.gpus + 1}) {
        for (int64_t elements : {0, 1, 259}) {
          if (elements == 0 && ranks > machine.gpus) continue;
          const MeetingSpec spec{kind, machine.gpus, ranks, elements};
          Meeting<TypeParam> cpu(CpuBackend(), spec), gpu(OnGpus(machine.apart), spec);
          uint32_t run = 0;
          for (const bool uneven : {false, true}) {
            for (int r = 0; uneven && r < ranks; ++r) cpu.weights[r] = r % 3 == 1 ? 0.0f : 0.3f + static_cast<float>(r);
            gpu.weights = cpu.weights;
            cpu.Fill(false, random);
            const auto before = gpu.data = cpu.data;
            ++run;
            for (const absl::Status& status : cpu.Run(run)) ASSERT_TRUE(status.ok()) << status;
            for (const absl::Status& status : gpu.Run(run)) ASSERT_TRUE(status.ok()) << status;
            const auto same = [&] {
              for (int r = 0; r < ranks && elements > 0; ++r) {
                ASSERT_EQ(std::memcmp(cpu.data[r].data(), gpu.data[r].data(), elements * sizeof(TypeParam)), 0)
                    << machine.name << ", kind " << static_cast<int>(kind) << ", rank " << r << " of " << ranks << ", "
                    << elements << " elements";
              }
            };
            same();
            if (!uneven) {
              ASSERT_TRUE(gpu.Capture(run).ok());
            }
            gpu.data = before;
            ASSERT_TRUE(gpu.Replay().ok());
            same();
          }
        }
      }
    }
  }
}

TEST(GpusApartMemory, IsTakenOnlyForWhatIsNotReached) {
  const auto bytes_in_use = [](const Apart& apart) {
    const DeviceSet gpus = OpenFakeGpus(2, /*tagged=*/false, apart);
    float data = 0;
    CollectiveSpec spec{.name = "test", .elements = 1000};
    for (int p = 0; p < 2; ++p) {
      spec.participants.push_back(&gpus.device(gpus.TowerDevices()[p]));
      spec.ranks.push_back({p, &data, &data});
    }
    const auto collective = MakeLocalCollective(spec);
    EXPECT_TRUE(collective.ok()) << collective.status();
    return spec.participants[1]->counters().bytes_in_use;
  };
  const size_t near = bytes_in_use({});
  EXPECT_GE(bytes_in_use({{0, 1}}), near + 500 * sizeof(float) + sizeof(float));
  EXPECT_LT(bytes_in_use({{0, 1}}), near + 1000 * sizeof(float));
}

}  // namespace
}  // namespace belfry
