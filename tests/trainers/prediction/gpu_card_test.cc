#include "trainers/prediction/gpu_card.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

TEST(GpuCard, KnownOnesHaveTheFiguresOfTheirDataSheets) {
  EXPECT_EQ(GpuCard::Find("h100")->flops_16bit, 989e12);
  EXPECT_EQ(GpuCard::Find("h200")->bandwidth, 4.8e12);
  EXPECT_EQ(GpuCard::Find("a100")->multiprocessors, 108);
  EXPECT_EQ(GpuCard::Find("a100_40gb")->bandwidth, 1555e9);
  EXPECT_EQ(GpuCard::Find("v100")->flops_tf32, GpuCard::Find("v100")->flops_float32);
}

TEST(GpuCard, KnownOnesHaveAllValues) {
  for (const char* name : {"v100", "a100", "a100_40gb", "h100", "h200"}) {
    EXPECT_TRUE(GpuCard::Parse(absl::StrCat("like ", name, "\nconv_share_float32 0.3")).ok()) << name;
  }
}

TEST(GpuCard, AFileChangesWhatItNames) {
  const std::string path = absl::StrCat(testing::TempDir(), "/card.txt");
  std::ofstream(path) << "# a slower one\nlike h100\n\nmodel  My card # mine\nbandwidth 2e12\nconv_share_float32 0.3\n";
  ASSERT_OK_AND_ASSIGN(const auto card, GpuCard::Find(path));
  EXPECT_EQ(card.model, "My card");
  EXPECT_EQ(card.bandwidth, 2e12);
  EXPECT_EQ(card.flops_16bit, 989e12);
}

TEST(GpuCard, NoOtherCardHasItsShareOfFloat32Convolutions) {
  EXPECT_THAT(GpuCard::Parse("conv_share_float32 0.3\nlike h100").status().message(),
              HasSubstr("there is no conv_share_float32; give it, since 'like'"));
}

TEST(GpuCard, ErrorsNameTheLine) {
  const auto error = [](absl::string_view text) { return std::string(GpuCard::Parse(text).status().message()); };
  EXPECT_THAT(error("like h100\nspeed 3"), HasSubstr("line 2: unknown key 'speed'; expected model, like, memory"));
  EXPECT_THAT(error("like h101"), HasSubstr("line 1: there is no card 'h101'; known: v100, a100"));
  for (const char* number : {"", "0", "-1", "nan", "inf", "fast", "1 2"}) {
    EXPECT_THAT(error(absl::StrCat("like h100\ncache ", number)), HasSubstr("line 2: cache is '")) << number;
  }
  EXPECT_THAT(error(""), HasSubstr("there is no memory; give all values"));
  EXPECT_THAT(error("memory 1e9"), HasSubstr("there is no bandwidth"));
}

TEST(GpuCard, AnUnknownNameIsAnError) {
  EXPECT_THAT(GpuCard::Find("/nowhere/card").status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("neither a known card (v100, a100, a100_40gb, h100, h200) nor a file")));
}

}  // namespace
}  // namespace belfry
