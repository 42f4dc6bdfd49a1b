// Which cards may copy straight from one to the other.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/device/cuda/card.h"

namespace belfry {

// Enables peer access between all cards and tries it in both directions: drivers are known to promise what the machine
// does not keep. A pair that cannot do it is reported in the log, and not connected; none is if `through_host`. An
// error if a copy does not come to its end, after which a card cannot be used.
absl::StatusOr<Peers> ConnectPeers(const std::vector<std::unique_ptr<Card>>& cards, bool through_host);

}  // namespace belfry
