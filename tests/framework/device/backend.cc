#include "tests/framework/device/backend.h"

namespace belfry {

std::vector<DeviceBackend> DeviceBackends() { return {{.name = "Cpu", .spec = "cpu:2"}}; }

}  // namespace belfry
