#include "tests/framework/collective/meeting.h"

namespace belfry {

std::vector<CollectiveBackend> CollectiveBackends() {
  return {{.name = "Local", .devices = "cpu", .make = MakeLocalCollective, .cannot = {}}};
}

}  // namespace belfry
