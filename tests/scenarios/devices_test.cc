// S1: devices and their names.
#include "framework/device/device_set.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

TEST(ScenarioDevices, OneCpuWithAllItsNames) {
  const DeviceSet devices = DeviceSet::Open("cpu").value();
  ASSERT_EQ(devices.size(), 1);
  for (const char* name : {"/cpu:0", "/CPU:0", "/device:CPU:0", "/job:localhost/replica:0/task:0/cpu:0",
                           "/job:localhost/replica:0/task:0/device:CPU:0"}) {
    EXPECT_EQ(devices.Find(DeviceName::Parse(name).value()), 0) << name;
  }
  EXPECT_EQ(devices.device(0).name().ToLegacyString(), "/job:localhost/replica:0/task:0/cpu:0");
  EXPECT_EQ(devices.device(0).name().ToString(), "/job:localhost/replica:0/task:0/device:CPU:0");
}

TEST(ScenarioDevices, EachIsListedWithWhatItIs) {
  const DeviceSet devices = DeviceSet::Open("cpu:4").value();
  ASSERT_EQ(devices.size(), 4);
  for (int i = 0; i < devices.size(); ++i) {
    Device& device = devices.device(i);
    EXPECT_EQ(*device.name().id, i);
    EXPECT_THAT(device.description(), HasSubstr("thread"));
    const DeviceCounters before = device.counters();
    EXPECT_GT(before.memory_limit, size_t{1} << 20);
    {
      const DeviceMemory memory = DeviceMemory::Allocate(device, 1'000'000).value();
      EXPECT_GE(device.counters().bytes_in_use, before.bytes_in_use + 1'000'000);
      EXPECT_EQ(device.counters().allocations, before.allocations + 1);
    }
    EXPECT_EQ(device.counters().bytes_in_use, before.bytes_in_use);
    EXPECT_GE(device.counters().peak_bytes_in_use, 1'000'000u);
  }
}

TEST(ScenarioDevices, MoreGpusThanThereAreIsAnErrorThatCountsThem) {
  EXPECT_THAT(DeviceSet::Open("gpu:1000").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1000 GPUs")));
}

}  // namespace
}  // namespace belfry
