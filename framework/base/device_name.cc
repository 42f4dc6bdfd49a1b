#include "framework/base/device_name.h"
namespace belfry {
absl::StatusOr<DeviceName> DeviceName::Parse(absl::string_view) { return absl::UnimplementedError("parse"); }
std::string DeviceName::ToString() const { return ""; }
std::string DeviceName::ToLegacyString() const { return ""; }
DeviceName MergeOverride(DeviceName outer, const DeviceName&) { return outer; }
}  // namespace belfry
