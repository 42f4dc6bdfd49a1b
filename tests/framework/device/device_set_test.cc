#include "framework/device/device_set.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

DeviceSet Open(absl::string_view spec, const DeviceOptions& options = {}) {
  return ValueOf(DeviceSet::Open(spec, options));
}

int Find(const DeviceSet& devices, absl::string_view name) { return devices.Find(*DeviceName::Parse(name)); }

TEST(DeviceSetTest, OpensLogicalCpuDevices) {
  const DeviceSet devices = Open("cpu:4");
  ASSERT_EQ(devices.size(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(devices.device(i).name(), DeviceName::Full("localhost", 0, 0, "CPU", i));
  EXPECT_THAT(devices.TowerDevices(), ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(devices.device(0).asynchronous());
}

TEST(DeviceSetTest, SpellingsOfASpecification) {
  EXPECT_EQ(Open("cpu").size(), 1);
  EXPECT_EQ(Open(" CPU:2 ").size(), 2);
  EXPECT_EQ(Open("Cpu:1").size(), 1);
}

TEST(DeviceSetTest, ThreadsAreSharedOrAsAskedFor) {
  const DeviceSet shared = Open("cpu:1024"), asked = Open("cpu:2", {.cpu_threads = 3});
  EXPECT_GE(shared.device(0).threads(), 1);
  EXPECT_EQ(asked.device(1).threads(), 3);
  EXPECT_THAT(asked.device(1).description(), HasSubstr("3 threads of "));
  EXPECT_THAT(Open("cpu:1", {.cpu_threads = 1}).device(0).description(), HasSubstr("1 thread of "));
}

TEST(DeviceSetTest, DevicesThatTakeAllCoresKeepToTheirOwn) {
  const std::vector<int> all = AvailableCores();
  const auto count = static_cast<int>(all.size());
  const auto bound = [](const DeviceSet& devices) {
    std::vector<int> cores;
    for (int i = 0; i < devices.size(); ++i) {
      cores.insert(cores.end(), devices.device(i).cores().begin(), devices.device(i).cores().end());
    }
    return cores;
  };
  const std::string each = absl::StrCat("cpu:", count);
  if (count > 1) {
    EXPECT_EQ(bound(Open(each)), all);
  }
  if (count > 1 && count % 2 == 0) {
    EXPECT_EQ(bound(Open("cpu:2")), all);
  }
  EXPECT_THAT(bound(Open(each, {.bind_threads = false})), IsEmpty());
  EXPECT_THAT(bound(Open(absl::StrCat("cpu:", count + 1))), IsEmpty()) << "more threads than cores";
  if (count > 2) {
    EXPECT_THAT(bound(Open("cpu:2", {.cpu_threads = 1})), IsEmpty()) << "some cores are left over";
  }
  EXPECT_THAT(bound(Open("cpu:1")), IsEmpty()) << "nothing to keep apart";
}

TEST(DeviceSetTest, ThreadsAreBounded) {
  EXPECT_EQ(Open("cpu:1", {.cpu_threads = 1024}).device(0).threads(), 1024);
  for (int threads : {-3, 1025, 20'000}) {
    EXPECT_THAT(
        DeviceSet::Open("cpu:1", {.cpu_threads = threads}).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::to_string(threads) + " threads each; expected 0")));
  }
}

TEST(DeviceSetTest, WrongSpecifications) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "unknown type ''"},
      {"tpu:1", "unknown type 'tpu'"},
      {"cpu:", "'' is not a number"},
      {"cpu:two", "'two' is not a number"},
      {"cpu:1x", "'1x' is not a number"},
      {"cpu:1000000000000", "the number must be 1 to 1024"},
      {"cpu:0", "must be 1 to 1024"},
      {"cpu:-1", "must be 1 to 1024"},
      {"cpu:1025", "must be 1 to 1024"},
      {"cpu:1:2", "too many colons"},
      {"cpu:1,", "unknown type ''"},
      {"cpu:1,cpu:2", "'cpu' is given twice"},
      {"/cpu:1", "unknown type '/cpu'"},
  };
  for (const auto& [spec, why] : cases) {
    const absl::Status status = DeviceSet::Open(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << spec;
    EXPECT_THAT(status.message(), HasSubstr(why)) << spec;
    EXPECT_THAT(status.message(), HasSubstr("expected cpu:N, gpu:N")) << spec;
  }
}

TEST(DeviceSetTest, MoreGpusThanThereAre) {
  EXPECT_THAT(DeviceSet::Open("cpu:1,gpu:1000").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1000 GPUs, but found ")));
}

TEST(DeviceSetTest, FindsTheFirstThatANameMayMean) {
  const DeviceSet devices = Open("cpu:3");
  EXPECT_EQ(Find(devices, "/cpu:2"), 2);
  EXPECT_EQ(Find(devices, "/cpu:*"), 0);
  EXPECT_EQ(Find(devices, ""), 0);
  EXPECT_EQ(Find(devices, "/device:*:1"), 1);
  EXPECT_EQ(Find(devices, "/job:localhost/replica:0/task:0/device:CPU:1"), 1);
  EXPECT_EQ(Find(devices, "/cpu:3"), -1);
  EXPECT_EQ(Find(devices, "/gpu:0"), -1);
  EXPECT_EQ(Find(devices, "/job:worker"), -1);
  EXPECT_EQ(Find(devices, "/task:1/cpu:0"), -1);
}

TEST(DeviceSetTest, MappingNamesTheDevicesOfTowers) {
  const DeviceSet devices = Open("cpu:2", {.cpu_threads = 1});
  const std::string what = devices.device(0).description();
  EXPECT_EQ(devices.MappingText(), "Device mapping:\n/job:localhost/replica:0/task:0/cpu:0 -> " + what +
                                       "\n/job:localhost/replica:0/task:0/cpu:1 -> " + what + "\n");
}

TEST(DeviceSetTest, MovesWithItsDevices) {
  DeviceSet devices = Open("cpu:2");
  Device* const second = &devices.device(1);
  const DeviceSet moved = std::move(devices);
  EXPECT_EQ(&moved.device(1), second);
  EXPECT_EQ(DeviceSet().size(), 0);
}

}  // namespace
}  // namespace belfry
