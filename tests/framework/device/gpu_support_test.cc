#include "framework/device/gpu_support.h"

#include <string>

#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::HasSubstr;

TEST(GpuSupport, DriversThatAreTooOldNameTheOneThatDoes) {
  EXPECT_EQ(
      DriverIsTooOld(12040, 13000),
      "the NVIDIA driver supports CUDA up to 12.4, but this Belfry was built with CUDA 13.0, which needs driver 580 "
      "or later; install a newer driver, or build with CUDA 12");
  EXPECT_THAT(DriverIsTooOld(11080, 12090), HasSubstr("built with CUDA 12.9, which needs driver 525 or later"));
  EXPECT_THAT(DriverIsTooOld(13000, 14020), HasSubstr("built with CUDA 14.2; install"));
}

TEST(GpuSupport, MachineCodeRunsWithinAMajorVersionAndPtxOnAllLater) {
  const auto runs = [](int major, int minor, const char* architectures) {
    return CheckCapability(major, minor, architectures).ok();
  };
  EXPECT_TRUE(runs(8, 0, "80-real,90"));
  EXPECT_TRUE(runs(8, 6, "80-real,90"));
  EXPECT_TRUE(runs(9, 0, "80-real,90"));
  EXPECT_TRUE(runs(10, 0, "80-real,90"));
  EXPECT_TRUE(runs(12, 0, "80-real,90"));
  EXPECT_FALSE(runs(8, 0, "90-real"));
  EXPECT_FALSE(runs(10, 0, "90-real"));
  EXPECT_FALSE(runs(8, 0, "86-real"));
  EXPECT_TRUE(runs(12, 0, "90-virtual"));
  EXPECT_TRUE(runs(9, 0, "90a-real"));
  EXPECT_FALSE(runs(10, 0, "90a"));
  EXPECT_TRUE(runs(10, 3, "100f-real"));
  EXPECT_FALSE(runs(12, 0, "100f"));
  EXPECT_TRUE(runs(9, 0, "native"));
  EXPECT_TRUE(runs(8, 9, "all-major"));
}

TEST(GpuSupport, CardsThatAreTooOldOrUnknownSayWhatIsNeeded) {
  const absl::Status old = CheckCapability(7, 5, "75,80-real");
  EXPECT_EQ(old.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::string(old.message()), "compute capability 7.5 is not supported; 8.0 (Ampere) or later is needed");
  EXPECT_EQ(std::string(CheckCapability(12, 0, "80-real,90-real").message()),
            "this Belfry has no code for compute capability 12.0, only for 80-real, 90-real; build it with -D "
            "CMAKE_CUDA_ARCHITECTURES=120");
}

}  // namespace
}  // namespace belfry
