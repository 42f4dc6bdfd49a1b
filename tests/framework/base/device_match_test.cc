#include <string>

#include "framework/base/device_name.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

constexpr char kFull[] = "/job:work/replica:1/task:2/device:GPU:3";

DeviceName Parsed(const char* text) { return DeviceName::Parse(text).value(); }

// The merged name, or the error's message.
std::string Merged(const char* target, const char* other, MergeMode mode) {
  const absl::StatusOr<DeviceName> merged = Merge(Parsed(target), Parsed(other), mode);
  if (merged.ok()) return merged->ToString();
  EXPECT_EQ(merged.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(merged.status().message());
}
std::string Hard(const char* target, const char* other) { return Merged(target, other, MergeMode::kHard); }
std::string Soft(const char* target, const char* other) { return Merged(target, other, MergeMode::kSoft); }
std::string Nested(const char* outer, const char* inner) {
  return MergeOverride(Parsed(outer), Parsed(inner)).ToString();
}

TEST(DeviceMatch, SpecificationIsAPartialOrder) {
  const char* chain[] = {
      "/",  "/job:work", "/job:work/replica:1", "/job:work/replica:1/task:2", "/job:work/replica:1/task:2/device:GPU:*",
      kFull};
  for (size_t i = 0; i < std::size(chain); ++i) {
    for (size_t j = 0; j < std::size(chain); ++j) {
      EXPECT_EQ(IsSpecification(Parsed(chain[i]), Parsed(chain[j])), i <= j) << chain[i] << " " << chain[j];
    }
  }
  const char* unordered[][2] = {{"/job:work", "/job:other"},   {"/job:a", "/task:0"},
                                {"/gpu:*", "/cpu:*"},          {"/gpu:1", "/gpu:2"},
                                {"/replica:1", "/replica:2"},  {"/task:1", "/task:2"},
                                {"/gpu:1", "/job:work/gpu:*"}, {"/device:GPU", "/cpu:0"},
                                {"/job:a/gpu:0", "/gpu:1"},    {"/job:a/task:0", "/job:a/replica:0"}};
  for (const auto& [a, b] : unordered) {
    EXPECT_FALSE(IsSpecification(Parsed(a), Parsed(b))) << a << " " << b;
    EXPECT_FALSE(IsSpecification(Parsed(b), Parsed(a))) << a << " " << b;
  }
}

TEST(DeviceMatch, PatternsSpecifyTheDevicesThatTheyAllow) {
  for (const char* pattern : {"/", "/job:*", "/gpu:*", "/device:GPU", "/job:work/task:2", "/gpu:3", kFull}) {
    EXPECT_TRUE(IsSpecification(Parsed(pattern), Parsed(kFull))) << pattern;
  }
  for (const char* pattern : {"/gpu:2", "/cpu:3", "/job:other", "/replica:2/gpu:3", "/task:1"}) {
    EXPECT_FALSE(IsSpecification(Parsed(pattern), Parsed(kFull))) << pattern;
  }
}

TEST(DeviceMatch, AddressSpaces) {
  const DeviceName full = Parsed(kFull);
  EXPECT_FALSE(IsDifferentAddressSpace(full, Parsed("/job:work/replica:1/task:2/cpu:0")));
  for (const char* other : {"/job:x/replica:1/task:2", "/job:work/replica:2/task:2", "/job:work/replica:1/task:1"}) {
    EXPECT_TRUE(IsDifferentAddressSpace(full, Parsed(other))) << other;
  }
  for (const char* undecided : {"/", "/gpu:3", "/job:work", "/job:work/task:2/gpu:3"}) {
    EXPECT_FALSE(IsDifferentAddressSpace(full, Parsed(undecided))) << undecided;
  }
  EXPECT_TRUE(IsDifferentAddressSpace(full, Parsed("/task:1")));
}

TEST(DeviceMatch, HardMergeTakesWhatIsSet) {
  for (const char* text : {"", "/job:foo", "/job:foo/replica:2/task:1", "/gpu:*", kFull}) {
    EXPECT_EQ(Hard(text, text), Parsed(text).ToString());
    EXPECT_EQ(Hard("", text), Parsed(text).ToString());
    EXPECT_EQ(Hard(text, "/job:*/replica:*/task:*/device:*:*"), Parsed(text).ToString());
  }
  const char* rows[][3] = {{"/job:foo", "/replica:1/gpu:0", "/job:foo/replica:1/device:GPU:0"},
                           {"/job:foo/gpu:*", "/job:foo/gpu:3", "/job:foo/device:GPU:3"},
                           {"/job:foo/replica:10", "/job:foo/task:2", "/job:foo/replica:10/task:2"},
                           {"/device:GPU", "/device:*:2", "/device:GPU:2"}};
  for (const auto& [a, b, merged] : rows) {
    EXPECT_EQ(Hard(a, b), merged);
    EXPECT_EQ(Hard(b, a), merged);
    EXPECT_EQ(Soft(a, b), merged);
    EXPECT_EQ(Nested(a, b), merged);
  }
}

TEST(DeviceMatch, HardMergeRefusesContradictions) {
  EXPECT_EQ(Hard("/job:foo/gpu:1", "/job:bar"),
            "Cannot merge devices with incompatible jobs: '/job:foo/device:GPU:1' and '/job:bar'");
  EXPECT_EQ(Hard("/replica:0", "/replica:1"),
            "Cannot merge devices with incompatible replicas: '/replica:0' and '/replica:1'");
  EXPECT_EQ(Hard("/task:0", "/task:1"), "Cannot merge devices with incompatible tasks: '/task:0' and '/task:1'");
  EXPECT_EQ(Hard("/gpu:*", "/cpu:*"),
            "Cannot merge devices with incompatible types: '/device:GPU:*' and '/device:CPU:*'");
  EXPECT_EQ(Hard("/gpu:0", "/gpu:1"),
            "Cannot merge devices with incompatible ids: '/device:GPU:0' and '/device:GPU:1'");
}

TEST(DeviceMatch, SoftMergeDropsWhatContradicts) {
  EXPECT_EQ(Soft("/job:foo/gpu:1", "/replica:2/cpu:0"), "/job:foo/replica:2");
  EXPECT_EQ(Soft("/job:foo/device:GPU", "/cpu:3"), "/job:foo");
  EXPECT_EQ(Merge(Parsed("/gpu:1"), Parsed("/cpu:1"), MergeMode::kSoft).value(), DeviceName());
  EXPECT_EQ(Soft("/gpu:1", "/job:foo/gpu:2"), "/job:foo/device:GPU:*");
  EXPECT_THAT(Soft("/job:foo", "/job:bar"), HasSubstr("incompatible jobs"));
  EXPECT_THAT(Soft("/replica:0", "/replica:1"), HasSubstr("incompatible replicas"));
  EXPECT_THAT(Soft("/task:0", "/task:1"), HasSubstr("incompatible tasks"));
}

TEST(DeviceMatch, ScopesNestFieldByField) {
  EXPECT_EQ(Nested("", ""), "");
  EXPECT_EQ(Nested("/device:GPU:0", "/job:worker"), "/job:worker/device:GPU:0");
  EXPECT_EQ(Nested("/job:worker/device:GPU:0", "/device:CPU:0"), "/job:worker/device:CPU:0");
  EXPECT_EQ(Nested("/job:worker/device:CPU:0", "/job:ps"), "/job:ps/device:CPU:0");
  EXPECT_EQ(Nested("/job:ps/device:CPU:0", ""), "/job:ps/device:CPU:0");
  EXPECT_EQ(Nested("/job:worker/replica:2", "/job:worker/replica:3/task:0"), "/job:worker/replica:3/task:0");
  EXPECT_EQ(Nested("/job:worker/task:0/device:CPU:1", "/job:worker/task:0/device:GPU:2"),
            "/job:worker/task:0/device:GPU:2");
  EXPECT_EQ(Nested("/device:CPU:*", "/device:CPU:5"), "/device:CPU:5");
  EXPECT_EQ(Nested("/device:GPU:7", "/device:GPU:*"), "/device:GPU:7");
}

}  // namespace
}  // namespace belfry
