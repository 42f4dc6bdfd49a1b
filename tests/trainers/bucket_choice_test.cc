#include "trainers/program/bucket_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/base/status.h"
#include "models/layers/losses.h"
#include "models/networks/mlp.h"
#include "ops/builtin_ops.h"
#include "optim/descent.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_world.h"

namespace belfry::trainers {
namespace {

using ::testing::HasSubstr;

TEST(ParseBucketSize, TakesBytesUnitsAndAuto) {
  EXPECT_EQ(ParseBucketSize("1").value(), 1u);
  EXPECT_EQ(ParseBucketSize("65536").value(), 65536u);
  EXPECT_EQ(ParseBucketSize("512K").value(), size_t{512} << 10);
  EXPECT_EQ(ParseBucketSize("1024M").value(), size_t{1} << 30);
  EXPECT_EQ(ParseBucketSize("auto").value(), std::nullopt);
  EXPECT_EQ(ParseBucketSize("").value(), 0u);
  for (const char* text : {"0", "-1", "K", "1G", "1025M", "1.5M", "1 M", "automatic", "99999999999999999999"}) {
    EXPECT_THAT(ParseBucketSize(text).status().message(), HasSubstr("--bucket_size=")) << text;
  }
}

TEST(KindOfAllTowers, IsTheOneKindThatThereIs) {
  const auto kinds_of = [](const std::vector<std::string>& devices) {
    std::vector<std::string> kinds(devices.size());
    const auto results =
        RunRanks(static_cast<int>(devices.size()), {.tell_failures = true}, [&](World& world) -> absl::Status {
          const bool gpu = devices[world.rank()] == "GPU";
          const DeviceSet own = gpu ? OpenFakeGpus(2, /*tagged=*/false) : DeviceSet::Open("cpu:2").value();
          ASSIGN_OR_RETURN(kinds[world.rank()], KindOfAllTowers(world, own, In(absl::Seconds(60))));
          EXPECT_EQ(models::DefaultBucketBytes(own), gpu ? models::kBucketBytesOnGpus : models::kBucketBytes);
          return world.Close(In(absl::Seconds(60)));
        });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
    return kinds;
  };
  EXPECT_THAT(kinds_of({"CPU", "CPU"}), testing::Each("CPU"));
  EXPECT_THAT(kinds_of({"GPU", "GPU"}), testing::Each("GPU"));
  EXPECT_THAT(kinds_of({"GPU", "CPU"}), testing::Each(""));
}

TEST(ChooseBuckets, AllProcessesTakeTheChoiceOfTaskZero) {
  constexpr int kProcesses = 3;
  const std::vector<data::Field> fields = {{"image", DType::kFloat32, {20}}, {"label", DType::kInt32, {}}};
  std::vector<BucketChoice> choices(kProcesses);
  const auto results = RunRanks(kProcesses, {.tell_failures = true}, [&](World& world) -> absl::Status {
    ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:1", {.cpu_threads = 1}));
    const auto add_step = [&](Graph& graph, size_t bucket_bytes) {
      const auto loss = [](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
        models::AddCrossEntropy(tower, models::Mlp(tower, batch["image"], {.hidden = {300}}), batch["label"]);
        return models::TotalLoss(tower);
      };
      return models::ReplicateTowers(Scope(graph), devices, fields, loss,
                                     optim::GradientDescent({.learning_rate = 0.1}),
                                     {.first_tower = world.rank(), .towers = kProcesses, .bucket_bytes = bucket_bytes});
    };
    ASSIGN_OR_RETURN(choices[world.rank()], ChooseBuckets(world, devices, {}, ExchangeWay::kSlices, 12, 1000, add_step,
                                                          In(absl::Seconds(60))));
    return world.Close(In(absl::Seconds(60)));
  });
  for (const absl::Status& status : results) ASSERT_TRUE(status.ok()) << status;
  for (const BucketChoice& choice : choices) {
    EXPECT_THAT(choice.bytes, testing::AnyOf(1000u, size_t{64} << 10));
    EXPECT_EQ(choice.bytes, choices[0].bytes);
    EXPECT_EQ(choice.text, choices[0].text);
    EXPECT_THAT(choice.text, HasSubstr("ms a step predicted"));
  }
}

}  // namespace
}  // namespace belfry::trainers
