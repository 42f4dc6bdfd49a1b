#include <string>
#include <vector>

#include "framework/base/status.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_world.h"
#include "tests/main/testing.h"
#include "trainers/flags/command_line.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {
namespace {

using ::testing::HasSubstr;

TEST(ParseBytes, TakesNumbersAndUnits) {
  EXPECT_EQ(ParseBytes("size", "1").value(), 1u);
  EXPECT_EQ(ParseBytes("size", "65536").value(), 65536u);
  EXPECT_EQ(ParseBytes("size", "512K").value(), size_t{512} << 10);
  EXPECT_EQ(ParseBytes("size", "1024M").value(), size_t{1} << 30);
  EXPECT_EQ(ParseBytes("size", "").value(), 0u);
  for (const char* text : {"0", "-1", "K", "1G", "1025M", "1.5M", "1 M", "auto", "99999999999999999999"}) {
    EXPECT_THAT(ParseBytes("size", text).status().message(), HasSubstr("--size=")) << text;
  }
}

TEST(BucketBytes, AreThoseOfGpusIfAllTowersAreOnThem) {
  const auto bytes_of = [](const std::vector<std::string>& devices) {
    std::vector<size_t> bytes(devices.size());
    const auto results =
        RunRanks(static_cast<int>(devices.size()), {.tell_failures = true}, [&](World& world) -> absl::Status {
          const bool gpu = devices[world.rank()] == "GPU";
          const DeviceSet own = gpu ? OpenFakeGpus(2, /*tagged=*/false) : DeviceSet::Open("cpu:2").value();
          ASSIGN_OR_RETURN(bytes[world.rank()], BucketBytes(world, own, In(absl::Seconds(60))));
          EXPECT_EQ(models::DefaultBucketBytes(own), gpu ? models::kBucketBytesOnGpus : models::kBucketBytes);
          return world.Close(In(absl::Seconds(60)));
        });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
    return bytes;
  };
  EXPECT_THAT(bytes_of({"CPU", "CPU"}), testing::Each(models::kBucketBytes));
  EXPECT_THAT(bytes_of({"GPU", "GPU"}), testing::Each(models::kBucketBytesOnGpus));
  EXPECT_THAT(bytes_of({"GPU", "CPU"}), testing::Each(models::kBucketBytes));
}

}  // namespace
}  // namespace belfry::trainers
