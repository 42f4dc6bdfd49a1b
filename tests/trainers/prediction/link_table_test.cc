#include "trainers/prediction/link_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LinkTable, LinearLinksHaveALatencyAndABandwidth) {
  const LinkTable link = LinkTable::Linear(2e-6, 1e9);
  EXPECT_DOUBLE_EQ(link.latency(), 2e-6);
  EXPECT_DOUBLE_EQ(link.Seconds(1e6), 2e-6 + 1e-3);
  EXPECT_EQ(LinkTable().Seconds(1e9), 0);
}

TEST(LinkTable, NamedLinksStayBelowTheirLine) {
  const struct {
    const char* name;
    double line;  // bits a second
  } kNamed[] = {{"1gbe", 1e9}, {"10gbe", 10e9}, {"ib100", 100e9}};
  for (const auto& named : kNamed) {
    const auto link = LinkTable::Find(named.name);
    ASSERT_TRUE(link.ok()) << named.name;
    EXPECT_GT(link->latency(), 0) << named.name;
    const double bits = 8e9 / (link->Seconds(2e9) - link->Seconds(1e9));
    EXPECT_LT(bits, named.line) << named.name;
    EXPECT_GT(bits, 0.85 * named.line) << named.name;
  }
}

TEST(LinkTable, InterpolatesInLogarithms) {
  const auto link = LinkTable::Interpolate({{100, 1e-6}, {10'000, 4e-6}, {1'000'000, 1e-3}});
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_DOUBLE_EQ(link->Seconds(100), 1e-6);
  EXPECT_DOUBLE_EQ(link->Seconds(10'000), 4e-6);
  EXPECT_DOUBLE_EQ(link->Seconds(1'000'000), 1e-3);
  EXPECT_NEAR(link->Seconds(1000), 2e-6, 1e-15);  // half way from 100 to 10,000, and from 1 us to 4
  EXPECT_DOUBLE_EQ(link->Seconds(4), 1e-6);
  EXPECT_DOUBLE_EQ(link->latency(), 1e-6);
  EXPECT_DOUBLE_EQ(link->Seconds(3'000'000), 3e-3);
}

// All-reduces of fp16 on 8 H200 by NCCL 2.29.2, in microseconds, from 512 KiB to 512 MiB (ai-dynamo/aiconfigurator at
// 095f58a).
TEST(LinkTable, FindsMeasurementsThatWereLeftOut) {
  const double kMicroseconds[] = {20.46, 26.14, 37.46, 51.37, 78.3, 121.74, 197.34, 319.63, 564.52, 1052.63, 2040.31};
  const auto bytes = [](size_t i) { return std::ldexp(1, 19 + static_cast<int>(i)); };
  std::vector<LinkPoint> kept;
  for (size_t i = 0; i < std::size(kMicroseconds); i += 2) kept.push_back({bytes(i), kMicroseconds[i] * 1e-6});
  const auto link = LinkTable::Interpolate(kept);
  ASSERT_TRUE(link.ok()) << link.status();
  for (size_t i = 1; i < std::size(kMicroseconds); i += 2) {
    EXPECT_NEAR(link->Seconds(bytes(i)) / (kMicroseconds[i] * 1e-6), 1, 0.06) << bytes(i);
  }
}

TEST(LinkTable, TablesThatAreNoneAreErrors) {
  EXPECT_THAT(LinkTable::Interpolate({{1, 1}}).status().message(), HasSubstr("two sizes"));
  EXPECT_THAT(LinkTable::Interpolate({{2, 1}, {2, 1}}).status().message(), HasSubstr("ascend"));
  EXPECT_THAT(LinkTable::Interpolate({{2, 1}, {3, 0}}).status().message(), HasSubstr("positive"));
}

TEST(LinkTable, ParsesLinesOfBytesAndSeconds) {
  const auto link = LinkTable::Parse("# node-a to node-b\n4 12e-6\r\n\n  65536\t90e-6  # median of 20\n4194304 5.1e-3");
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_DOUBLE_EQ(link->latency(), 12e-6);
  EXPECT_DOUBLE_EQ(link->Seconds(65536), 90e-6);
  EXPECT_DOUBLE_EQ(link->Seconds(4194304), 5.1e-3);
}

TEST(LinkTable, ParsingNamesTheLineOfAnError) {
  const struct {
    const char *text, *line, *what;
  } kBad[] = {
      {"4 1e-6\nmany 2e-6\n", "line 2", "'many 2e-6'"},
      {"4 1e-6\n\n8 2e-6 3\n", "line 3", "bytes seconds"},
      {"4\n", "line 1", "bytes seconds"},
      {"4 1e-6\n8 -1\n", "line 2", "positive"},
      {"4 1e-6\n8 nan\n", "line 2", "positive"},
      {"4 inf\n", "line 1", "positive"},
      {"0 1e-6\n", "line 1", "positive"},
      {"4 1e-6\n4 2e-6\n", "line 2", "ascend"},
      {"", "", "two sizes"},
      {"4 1e-6 # alone\n", "", "two sizes"},
  };
  for (const auto& bad : kBad) {
    const absl::Status status = LinkTable::Parse(bad.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.text;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(bad.line), HasSubstr(bad.what))) << bad.text;
  }
}

TEST(LinkTable, FilesAreFoundByPath) {
  const std::string path = testing::TempDir() + "/belfry_link_table_test.txt";
  std::ofstream(path) << "4 1e-6\n8 2e-6\n";
  EXPECT_TRUE(LinkTable::Find(path).ok());
  std::ofstream(path) << "4 1e-6\nx\n";
  EXPECT_THAT(LinkTable::Find(path).status().message(), AllOf(HasSubstr(path), HasSubstr("line 2")));
  std::remove(path.c_str());
  const absl::Status missing = LinkTable::Find("40gbe").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("'40gbe'"), HasSubstr("10gbe")));
}

TEST(LinkTable, FitFindsTheLine) {
  std::vector<LinkPoint> points;
  for (double bytes = 4; bytes < 1e8; bytes *= 16) points.push_back({bytes, 25e-6 + bytes / 1.1e9});
  const auto exact = LinkTable::Fit(points);
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_NEAR(exact->latency(), 25e-6, 1e-10);
  EXPECT_NEAR(exact->Seconds(1e6), 25e-6 + 1e6 / 1.1e9, 1e-9);
  // One per cent off, up and down in turn: small and large messages are met alike.
  for (size_t i = 0; i < points.size(); ++i) points[i].seconds *= i % 2 == 0 ? 1.01 : 0.99;
  const auto noisy = LinkTable::Fit(points);
  ASSERT_TRUE(noisy.ok()) << noisy.status();
  for (const LinkPoint& point : points) EXPECT_NEAR(noisy->Seconds(point.bytes), point.seconds, 0.025 * point.seconds);
}

TEST(LinkTable, FittedLatencyIsNotNegative) {
  const auto link = LinkTable::Fit({{1000, 1e-6}, {2000, 3e-6}});
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_EQ(link->latency(), 0);
  EXPECT_GT(link->Seconds(1000), 0);
}

TEST(LinkTable, PointsWithoutALineAreErrors) {
  EXPECT_THAT(LinkTable::Fit({}).status().message(), HasSubstr("two sizes"));
  EXPECT_THAT(LinkTable::Fit({{8, 1}, {8, 2}}).status().message(), HasSubstr("two sizes"));
  EXPECT_THAT(LinkTable::Fit({{8, 2}, {16, 1}}).status().message(), HasSubstr("does not grow"));
  EXPECT_THAT(LinkTable::Fit({{8, 2}, {-16, 1}}).status().message(), HasSubstr("positive"));
}

}  // namespace
}  // namespace belfry
