#include "framework/device/described_gpu.h"

#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 1000;

DeviceSet Described(absl::string_view spec) {
  return OpenDescribedGpus(spec, {.model = "a card", .memory_bytes = kBytes}).value();
}

TEST(DescribedGpus, AreAsManyAsAskedBesideOneCpu) {
  const DeviceSet devices = Described("gpu:3");
  ASSERT_EQ(devices.size(), 4);
  EXPECT_EQ(DescriptionOf(devices.device(0)), nullptr);
  EXPECT_EQ(devices.device(0).type(), "CPU");
  EXPECT_EQ(devices.TowerDevices(), (std::vector<int>{1, 2, 3}));
  ASSERT_NE(DescriptionOf(devices.device(3)), nullptr);
  EXPECT_EQ(DescriptionOf(devices.device(3))->model, "a card");
  EXPECT_EQ(devices.device(3).name().ToLocalString(), "GPU:2");
  EXPECT_FALSE(devices.device(1).only_gpu());
  EXPECT_TRUE(Described("gpu:1").device(1).only_gpu());
}

TEST(DescribedGpus, CountTheirMemory) {
  const DeviceSet devices = Described("gpu:1");
  Device& gpu = devices.device(1);
  EXPECT_EQ(gpu.Allocate(0).value(), nullptr);
  void* const first = gpu.Allocate(100).value();
  void* const second = gpu.Allocate(900).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_GE(static_cast<char*>(second) - static_cast<char*>(first), 100);
  EXPECT_THAT(gpu.Allocate(1).status().message(), HasSubstr("no room for 1 bytes: 1000 of its 1000 bytes"));
  gpu.Deallocate(first, 100);
  EXPECT_EQ(gpu.counters().bytes_in_use, 900u);
  EXPECT_EQ(gpu.counters().peak_bytes_in_use, kBytes);
  EXPECT_TRUE(gpu.Allocate(100).ok());
}

TEST(DescribedGpus, RunNothing) {
  const DeviceSet devices = Described("gpu:1");
  for (const absl::Status& status :
       {devices.device(1).NewStream(StreamKind::kCompute).status(), devices.device(1).AllocateHost(8).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a description of a card")));
  }
}

TEST(DescribedGpus, RefuseOtherSpecs) {
  for (const char* spec : {"", "gpu", "cpu:1", "gpu:0", "gpu:-1", "gpu:1025", "gpu:x", "gpu:2,cpu:1"}) {
    const auto devices = OpenDescribedGpus(spec, {.model = "a card", .memory_bytes = kBytes});
    EXPECT_THAT(devices.status().message(), HasSubstr("expected gpu:N")) << spec;
  }
}

}  // namespace
}  // namespace belfry
