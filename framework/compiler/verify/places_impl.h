// The places of a plan's values in memory, and errors about its nodes.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/plan.h"
#include "framework/compiler/verify/history_impl.h"

namespace belfry::verify {

// A memory: the arena of a device, {device, -1}, or a variable, {-1, node}.
using Space = std::pair<int, int>;

struct Place {
  Space space{-1, -1};
  Range range;
  bool known() const { return space != Space{-1, -1}; }
};

// Not known: of constants, and of what has no bytes.
Place PlaceOf(const Plan& plan, Value value);
Place WorkspaceOf(const Plan& plan, int node);

// Internal: "The plan is wrong: ", and for a flaw the node with the user's line.
absl::Status Wrong(absl::string_view text);
absl::Status Flaw(const ProgramNode& node, absl::string_view text);

}  // namespace belfry::verify
