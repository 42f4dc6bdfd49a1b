#include "framework/device/gpu_support.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace belfry {
namespace {

constexpr int kMinCapability = 80;  // compute capability 8.0: bfloat16, and shared memory of 48 KiB and more

// Major version of CUDA, and the first branch of drivers that supports it on Linux (CUDA Toolkit Release Notes).
struct Branch {
  int cuda, driver;
};
constexpr Branch kBranches[] = {{12, 525}, {13, 580}};

// True if code for `architecture`, such as "80-real", "90" or "90a-real", runs on a card of `capability`, such as 86.
bool Fits(absl::string_view architecture, int capability) {
  const absl::string_view digits = architecture.substr(0, architecture.find_first_not_of("0123456789"));
  int number = 0;
  if (!absl::SimpleAtoi(digits, &number)) return true;
  const absl::string_view rest = architecture.substr(digits.size());
  if (absl::StartsWith(rest, "a")) return capability == number;  // features of that one
  const bool same_major = capability / 10 == number / 10;
  if (absl::StartsWith(rest, "f")) return same_major && capability >= number;  // of that family
  return capability >= number && (same_major || !absl::EndsWith(rest, "-real"));
}

}  // namespace

std::string CudaVersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

std::string DriverIsTooOld(int driver, int runtime) {
  std::string text = absl::StrCat("the NVIDIA driver supports CUDA up to ", CudaVersionText(driver),
                                  ", but this Belfry was built with CUDA ", CudaVersionText(runtime));
  for (const Branch& branch : kBranches) {
    if (branch.cuda == runtime / 1000) absl::StrAppend(&text, ", which needs driver ", branch.driver, " or later");
  }
  return absl::StrCat(text, "; install a newer driver, or build with CUDA ", driver / 1000);
}

absl::Status CheckCapability(int major, int minor, absl::string_view architectures) {
  const int capability = 10 * major + minor;
  if (capability < kMinCapability) {
    return absl::FailedPreconditionError(
        absl::StrCat("compute capability ", major, ".", minor, " is not supported; 8.0 (Ampere) or later is needed"));
  }
  for (absl::string_view architecture : absl::StrSplit(architectures, ',')) {
    if (Fits(architecture, capability)) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "this Belfry has no code for compute capability ", major, ".", minor, ", only for ",
      absl::StrReplaceAll(architectures, {{",", ", "}}), "; build it with -D CMAKE_CUDA_ARCHITECTURES=", capability));
}

}  // namespace belfry
