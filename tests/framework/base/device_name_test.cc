#include "framework/base/device_name.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

DeviceName Name(const char* text) { return DeviceName::Parse(text).value(); }

std::string Message(const char* text) {
  const absl::StatusOr<DeviceName> name = DeviceName::Parse(text);
  EXPECT_EQ(name.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(name.status().message());
}

struct Row {
  const char* text;
  const char* printed;
  const char* legacy;
};

TEST(DeviceName, ParsesAndPrints) {
  const Row rows[] = {
      {"", "", ""},
      {"/", "", ""},
      {"/gpu:0", "/device:GPU:0", "/gpu:0"},
      {"/GPU:0", "/device:GPU:0", "/gpu:0"},
      {"/cpu:0", "/device:CPU:0", "/cpu:0"},
      {"/CPU:12", "/device:CPU:12", "/cpu:12"},
      {"/GPU:*", "/device:GPU:*", "/gpu:*"},
      {"/device:GPU", "/device:GPU:*", "/gpu:*"},
      {"/device:GPU:*", "/device:GPU:*", "/gpu:*"},
      {"/device:GPU:0", "/device:GPU:0", "/gpu:0"},
      {"/device:gpu:0", "/device:GPU:0", "/gpu:0"},
      {"/device:cpu:0", "/device:CPU:0", "/cpu:0"},
      {"/device:Gpu", "/device:GPU:*", "/gpu:*"},
      {"/device:myspecialdevice:13", "/device:myspecialdevice:13", "/device:myspecialdevice:13"},
      {"/device:TPU", "/device:TPU:*", "/device:TPU:*"},
      {"/job:a/job:b", "/job:b", "/job:b"},
      {"/job:a/job:*", "", ""},
      {"/gpu:007", "/device:GPU:7", "/gpu:7"},
      {"/gpu:2147483647", "/device:GPU:2147483647", "/gpu:2147483647"},
      {"/job:a1_b", "/job:a1_b", "/job:a1_b"},
      {"/CPU:0/GPU:1", "/device:GPU:1", "/gpu:1"},
      {"/gpu:1/device:CPU", "/device:CPU:*", "/cpu:*"},
      {"/task:3/job:w", "/job:w/task:3", "/job:w/task:3"},
      {"/gpu:1/task:3/replica:2/job:w", "/job:w/replica:2/task:3/device:GPU:1", "/job:w/replica:2/task:3/gpu:1"},
      {"/job:localhost/replica:0/task:0/gpu:0", "/job:localhost/replica:0/task:0/device:GPU:0",
       "/job:localhost/replica:0/task:0/gpu:0"},
      {"/job:*/replica:4/gpu:*", "/replica:4/device:GPU:*", "/replica:4/gpu:*"},
      {"/job:foo/replica:*/gpu:*", "/job:foo/device:GPU:*", "/job:foo/gpu:*"},
      {"/job:foo/task:*", "/job:foo", "/job:foo"},
      {"/device:*", "", ""},
      {"/device:*:3", "", ""},
  };
  for (const Row& row : rows) {
    ASSERT_OK_AND_ASSIGN(const DeviceName name, DeviceName::Parse(row.text));
    EXPECT_EQ(name.ToString(), row.printed) << row.text;
    EXPECT_EQ(name.ToLegacyString(), row.legacy) << row.text;
  }
}

TEST(DeviceName, SetsExactlyTheFieldsThatAreNamed) {
  EXPECT_EQ(Name("/"), DeviceName());
  EXPECT_EQ(Name("/job:foo/replica:1/task:2/device:GPU:3"),
            (DeviceName{.job = "foo", .replica = 1, .task = 2, .type = "GPU", .id = 3}));
  EXPECT_EQ(Name("/device:*:3"), DeviceName{.id = 3});
  EXPECT_EQ(Name("/gpu:1/device:*"), DeviceName());
  EXPECT_EQ(Name("/device:GPU"), DeviceName{.type = "GPU"});
  EXPECT_NE(Name("/gpu:0"), Name("/gpu:*"));
}

TEST(DeviceName, RefusesWhatIsNotInTheGrammar) {
  for (const char* text : {"foobar",
                           "gpu:0",
                           "cpu",
                           "/gpu",
                           "/Gpu:1",
                           "/cPU:0",
                           "/tpu:0",
                           "/foo:1",
                           "//gpu:0",
                           "//",
                           "/gpu:0/",
                           "/gpu:-1",
                           "/gpu:+1",
                           "/gpu: 1",
                           "/gpu:0x",
                           "/gpu:",
                           "/gpu:**",
                           "/gpu:2147483648",
                           "/gpu:99999999999999999999",
                           "/job:",
                           "/job:1a",
                           "/job:a-b",
                           "/job:foo*",
                           "/job:*foo",
                           "/job:_a",
                           "/job",
                           "/job:a/",
                           "/job:a:1",
                           "/job:a /gpu:0",
                           "/job:123/task:0",
                           "/replica:-1",
                           "/replica:",
                           "/task:-2",
                           "/task:one",
                           "/job:foo/replica:1/bar:3",
                           "/job:foo/replica:1/task:2/gpu:0/extra",
                           "/device:",
                           "/device:GPU:",
                           "/device:GPU:1:2",
                           "/device:GPU:x",
                           "/device:7",
                           "/device::0",
                           "/device",
                           "/JOB:a",
                           " /gpu:0",
                           "/gpu:0 ",
                           "/job:\xc3\xa4"}) {
    EXPECT_THAT(Message(text), HasSubstr(absl::StrCat("'", text, "'"))) << text;
  }
}

TEST(DeviceName, ErrorsNameTheComponentAndWhatMayStandThere) {
  EXPECT_EQ(Message("/job:a-b/gpu:0"),
            "Cannot parse the device name '/job:a-b/gpu:0' at '/job:a-b': the job 'a-b' must be a letter "
            "followed by letters, digits or '_', or '*'");
  EXPECT_THAT(Message("/job:a/gpu:-1"), HasSubstr("at '/gpu:-1': the device id '-1' must be a number (digits only"));
  EXPECT_THAT(Message("/job:a/tpu:0"), HasSubstr("at '/tpu:0': expected /job:NAME, /replica:N"));
  EXPECT_THAT(Message("gpu:0/job:a"), HasSubstr("at 'gpu:0': a device name must begin with '/'"));
  EXPECT_THAT(Message("/job:a/"), HasSubstr("at '/':"));
}

TEST(DeviceName, EveryPartialNameRoundTrips) {
  const DeviceName full = Name("/job:foo/replica:3/task:2/device:GPU:0");
  for (int fields = 0; fields < 8; ++fields) {
    for (const char* device : {"", "/gpu:0", "/GPU:5", "/gpu:*", "/cpu:1", "/device:CPU:2", "/device:gpu",
                               "/device:a_1:0", "/device:aB:*"}) {
      DeviceName name = Name(device);
      if (fields & 1) name.job = full.job;
      if (fields & 2) name.replica = full.replica;
      if (fields & 4) name.task = full.task;
      EXPECT_EQ(DeviceName::Parse(name.ToString()).value(), name);
      EXPECT_EQ(DeviceName::Parse(name.ToLegacyString()).value(), name);
    }
  }
}

TEST(DeviceName, FullNameIsCanonical) {
  const DeviceName name = DeviceName::Full("hello", 1, 2, "cpu", 3);
  EXPECT_EQ(name.ToString(), "/job:hello/replica:1/task:2/device:CPU:3");
  EXPECT_TRUE(name.IsFull());
  EXPECT_DEATH(DeviceName::Full("1a", 0, 0, "CPU", 0), "CHECK failed");
  EXPECT_DEATH(DeviceName::Full("a", 0, -1, "CPU", 0), "CHECK failed");
}

TEST(DeviceName, LocalNamesAreTypeAndId) {
  EXPECT_EQ(Name("/job:a/gpu:2").ToLocalString(), "GPU:2");
  EXPECT_EQ(Name("/device:myspecialdevice:13").ToLocalString(), "myspecialdevice:13");
  EXPECT_DEATH(Name("/device:GPU").ToLocalString(), "CHECK failed");
}

}  // namespace
}  // namespace belfry
