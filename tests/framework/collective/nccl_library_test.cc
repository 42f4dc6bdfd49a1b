// Opening NCCL. Its calls are tested on GPUs (gpu_nccl_test.cc).
#include <cstdlib>
#include <string>

#include "framework/collective/cuda/collectives.h"
#include "tests/main/testing.h"

namespace belfry {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::Status OpenFrom(const std::string& folder) {
  setenv("BELFRY_CUDA_PATH", folder.c_str(), 1);
  const absl::Status status = OpenNcclLibrary().status();
  unsetenv("BELFRY_CUDA_PATH");
  return status;
}

TEST(NcclLibrary, ThatIsTooOldNamesItsFileAndWhatIsNeeded) {
  EXPECT_THAT(OpenFrom(BELFRY_STUBS "/old_nccl"),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("Cannot average with NCCL: "),
                             HasSubstr("old_nccl/libnccl.so.2 is NCCL 2.12.12, but 2.14.0 or later is needed"),
                             HasSubstr("or use --averager=local"))));
}

TEST(NcclLibrary, WithoutAFunctionNamesIt) {
  EXPECT_THAT(OpenFrom(BELFRY_STUBS "/empty_nccl"),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("empty_nccl/libnccl.so.2 is NCCL 2.28.3, but it has no nccl")));
}

}  // namespace
}  // namespace belfry
