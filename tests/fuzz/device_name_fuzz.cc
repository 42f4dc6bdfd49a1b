// Input: one device name, or two separated by a line end.
#include "framework/base/device_name.h"

#include "tests/fuzz/fuzz.h"

namespace belfry {
namespace {

void CheckPrinted(const DeviceName& name) {
  DeviceName expected = name;
  if (!name.type) expected.id.reset();
  for (const std::string& text : {name.ToString(), name.ToLegacyString()}) {
    const auto parsed = DeviceName::Parse(text);
    BELFRY_CHECK(parsed.ok() && *parsed == expected);
  }
}

void CheckPair(const DeviceName& a, const DeviceName& b) {
  BELFRY_CHECK(IsSpecification(a, a));
  BELFRY_CHECK(IsDifferentAddressSpace(a, b) == IsDifferentAddressSpace(b, a));
  const auto hard = Merge(a, b, MergeMode::kHard), soft = Merge(a, b, MergeMode::kSoft);
  BELFRY_CHECK(soft.ok() == !IsDifferentAddressSpace(a, b));
  if (hard.ok()) {
    BELFRY_CHECK(IsSpecification(a, *hard) && IsSpecification(b, *hard));
    BELFRY_CHECK(soft.ok() && *soft == *hard && Merge(b, a, MergeMode::kHard).value() == *hard);
  }
  BELFRY_CHECK(IsSpecification(b, MergeOverride(a, b)));
}

}  // namespace
}  // namespace belfry

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  const absl::string_view text = fuzz::Input(data, size).Rest();
  const size_t end = std::min(text.find('\n'), text.size());
  const absl::string_view second = text.substr(std::min(end + 1, text.size()));
  const auto a = DeviceName::Parse(text.substr(0, end)), b = DeviceName::Parse(second);
  for (const auto& name : {a, b}) {
    if (name.ok()) CheckPrinted(*name);
  }
  if (a.ok() && b.ok()) CheckPair(*a, *b);
  return 0;
}
