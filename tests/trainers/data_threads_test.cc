#include <algorithm>

#include "framework/base/cores.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/main/testing.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {
namespace {

TEST(DataThreadsTest, AsManyAsTheTowersNeed) {
  EXPECT_EQ(DataThreads(DeviceSet::Open("cpu:2").value()), 1);
  const int most = std::max(1, UsableCores() / 2);
  EXPECT_EQ(DataThreads(OpenFakeGpus(1)), std::min(3, most));
  EXPECT_EQ(DataThreads(OpenFakeGpus(200)), most);
}

}  // namespace
}  // namespace belfry::trainers
