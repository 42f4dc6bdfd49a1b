#include "framework/device/gpu_options.h"
#include "tests/framework/device/backend.h"
#include "tests/main/testing.h"

#include <string>
#include <utility>
#include <vector>

namespace belfry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::StatusCode kShort = absl::StatusCode::kResourceExhausted;

void ExpectWrong(const absl::Status& status, const char* why,
                 absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(status.message(), HasSubstr(why));
}

TEST(GpuOptions, DefaultsAndGoodValues) {
  EXPECT_TRUE(CheckGpuOptions({}).ok());
  for (const char* memory : {"0.4", "1.0", ".5", "4GiB", "4 gib", "4096MiB", "4294967296", "1048576KiB", "0.5TiB"}) {
    EXPECT_TRUE(CheckGpuOptions({.gpu_memory = memory}).ok()) << memory;
  }
  EXPECT_TRUE(CheckGpuOptions({.virtual_gpus = 64}).ok());
  EXPECT_TRUE(CheckGpuOptions({.virtual_gpus = 2, .gpu_memory = "0.5"}).ok());
  EXPECT_TRUE(CheckGpuOptions({.visible_gpus = " 2, 0 "}).ok());
}

TEST(GpuOptions, WrongValuesNameTheOption) {
  ExpectWrong(CheckGpuOptions({.virtual_gpus = 0}), "virtual_gpus=0: a card can be opened as 1 to 64 devices");
  ExpectWrong(CheckGpuOptions({.virtual_gpus = 65}), "virtual_gpus=65");
  ExpectWrong(CheckGpuOptions({.virtual_gpus = 3, .gpu_memory = "0.4"}), "virtual_gpus=3 such shares exceed the card");
  const std::pair<const char*, const char*> memories[] = {
      {"much", "not an amount"}, {"-1GiB", "not an amount"},    {"GiB", "not an amount"},
      {"4GB", "not an amount"},  {"1e9", "not an amount"},      {"1.2.3", "not an amount"},
      {"nan", "not an amount"},  {"0.0", "a fraction must be"}, {"1.5", "a fraction must"},
      {"2", "less than 1 MiB"},  {"0GiB", "less than 1 MiB"},   {"99999TiB", "more than any"},
      {".", "not an amount"},    {"512KiB", "less than 1 MiB"}};
  for (const auto& [memory, why] : memories) {
    const absl::Status status = CheckGpuOptions({.gpu_memory = memory});
    ExpectWrong(status, why);
    ExpectWrong(status, ("gpu_memory='" + std::string(memory) + "'").c_str());
  }
  ExpectWrong(CheckGpuOptions({.visible_gpus = "0,x"}), "visible_gpus='0,x': 'x' is not a number");
  ExpectWrong(CheckGpuOptions({.visible_gpus = "0,"}), "'' is not a number");
  ExpectWrong(CheckGpuOptions({.visible_gpus = "-1"}), "there is no card -1");
  ExpectWrong(CheckGpuOptions({.visible_gpus = "1,2,1"}), "1 is given twice");
}

TEST(GpuOptions, VisibleCardsAreInTheOrderGiven) {
  EXPECT_THAT(*VisibleCards({}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(*VisibleCards({.visible_gpus = "2,0"}, 3), ElementsAre(2, 0));
  ExpectWrong(VisibleCards({.visible_gpus = "0,3"}, 3).status(), "there is no card 3; found 3 cards");
  ExpectWrong(VisibleCards({.visible_gpus = "1"}, 1).status(), "found 1 card,");
}

TEST(GpuOptions, ProcessesOfAMachineTakeCardsInTurn) {
  const auto cards = [](int local_rank, int gpus, std::vector<int> visible, int virtual_gpus = 1) {
    return CardsOfProcess({.local_rank = local_rank, .virtual_gpus = virtual_gpus}, gpus, std::move(visible));
  };
  EXPECT_THAT(*cards(0, 2, {0, 1, 2, 3}), ElementsAre(0, 1, 2, 3)) << "of which it opens two";
  EXPECT_THAT(*cards(1, 2, {0, 1, 2, 3}), ElementsAre(2, 3));
  EXPECT_THAT(*cards(2, 1, {0, 1, 2, 3}), ElementsAre(2, 3));
  EXPECT_THAT(*cards(1, 1, {5, 3}), ElementsAre(3)) << "in the order of visible_gpus";
  EXPECT_THAT(*cards(1, 4, {0, 1, 2, 3}, 2), ElementsAre(2, 3)) << "two devices on a card";
  EXPECT_THAT(*cards(1, 3, {0, 1, 2, 3}, 2), ElementsAre(2, 3)) << "of which one has half a card";
  // Those that the launcher gave to this process.
  EXPECT_THAT(*cards(3, 1, {0}), ElementsAre(0));
  EXPECT_THAT(*cards(1, 2, {0, 1}), ElementsAre(0, 1));
  EXPECT_THAT(*cards(1, 8, {0, 1}), ElementsAre(0, 1)) << "opening says that there are too few";
  ExpectWrong(cards(2, 2, {0, 1, 2, 3}).status(),
              "Requested gpu:2 in each process: process 2 of this machine (counted from 0) needs 2 cards after the "
              "first 4, but 4 are visible; start at most 2 processes on this machine");
  ExpectWrong(cards(1, 2, {0, 1, 2}).status(), "start at most 1 process on this machine");
}

TEST(GpuOptions, VirtualGpusFillACardFirst) {
  const DeviceOptions two = {.virtual_gpus = 2};
  EXPECT_EQ(PlaceOfGpu(two, 0), (GpuPlace{0, 0}));
  EXPECT_EQ(PlaceOfGpu(two, 1), (GpuPlace{0, 1}));
  EXPECT_EQ(PlaceOfGpu(two, 2), (GpuPlace{1, 0}));
  EXPECT_EQ(PlaceOfGpu(two, 3), (GpuPlace{1, 1}));
  EXPECT_EQ(PlaceOfGpu({}, 3), (GpuPlace{3, 0}));
}

TEST(GpuOptions, AnEvenShareOfWhatIsFreeByDefault) {
  EXPECT_EQ(*GpuMemoryLimit({}, 80 * kGi, 70 * kGi), 68 * kGi) << "2 GiB are left on a large card";
  EXPECT_EQ(*GpuMemoryLimit({}, 16 * kGi, 15 * kGi), 14 * kGi) << "a sixteenth on a small one";
  EXPECT_EQ(*GpuMemoryLimit({.virtual_gpus = 2}, 80 * kGi, 70 * kGi), 34 * kGi);
  EXPECT_EQ(*GpuMemoryLimit({.virtual_gpus = 3}, 80 * kGi, 70 * kGi) % 256, 0u);
  ExpectWrong(GpuMemoryLimit({}, 80 * kGi, kGi).status(), "only 1.0 GiB of 80.0 GiB are free", kShort);
}

TEST(GpuOptions, BytesAndFractions) {
  EXPECT_EQ(*GpuMemoryLimit({.gpu_memory = "0.5"}, 80 * kGi, 70 * kGi), 40 * kGi);
  EXPECT_EQ(*GpuMemoryLimit({.virtual_gpus = 2, .gpu_memory = "0.25"}, 80 * kGi, 70 * kGi), 20 * kGi);
  EXPECT_EQ(*GpuMemoryLimit({.gpu_memory = "4GiB"}, 80 * kGi, 70 * kGi), 4 * kGi);
  EXPECT_EQ(*GpuMemoryLimit({.gpu_memory = "1.5 GiB"}, 80 * kGi, 70 * kGi), 3 * kGi / 2);
  EXPECT_EQ(*GpuMemoryLimit({.gpu_memory = "300mib"}, 80 * kGi, 70 * kGi), 300 * kMi);
  EXPECT_EQ(*GpuMemoryLimit({.gpu_memory = "1048577"}, 80 * kGi, 70 * kGi), kMi) << "rounded down to 256";
  ExpectWrong(GpuMemoryLimit({.gpu_memory = "71GiB"}, 80 * kGi, 70 * kGi).status(),
              "gpu_memory='71GiB' is 71.0 GiB, but only 70.0 GiB of 80.0 GiB are free", kShort);
  ExpectWrong(GpuMemoryLimit({.gpu_memory = "81GiB"}, 80 * kGi, 70 * kGi).status(), "is 81.0 GiB");
  ExpectWrong(GpuMemoryLimit({.virtual_gpus = 2, .gpu_memory = "36GiB"}, 80 * kGi, 70 * kGi).status(),
              "36.0 GiB for each of 2 devices", kShort);
  ExpectWrong(GpuMemoryLimit({.virtual_gpus = 2, .gpu_memory = "41GiB"}, 80 * kGi, 70 * kGi).status(),
              "41.0 GiB for each of 2 devices");
}

TEST(GpuOptions, AreCheckedWhateverIsOpened) {
  ExpectWrong(DeviceSet::Open("cpu:1", {.virtual_gpus = 0}).status(), "virtual_gpus=0");
  ExpectWrong(DeviceSet::Open("gpu:1", {.gpu_memory = "lots"}).status(), "gpu_memory='lots'");
}

}  // namespace
}  // namespace belfry
