// Trying out peer access between cards.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/device/cuda/card.h"

namespace belfry {

// Enables peer access between all cards and tries it in both directions, because some drivers report access that does
// not work. A pair for which it fails is logged and left unconnected. With `through_host` no pair is connected.
// Unavailable if a trial copy never finishes, after which the card cannot be used.
absl::StatusOr<Peers> ConnectPeers(const std::vector<std::unique_ptr<Card>>& cards, bool through_host);

}  // namespace belfry
