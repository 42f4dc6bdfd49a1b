// Checkpoints of a run whose optimizer state is divided among tasks: task 0 alone reads and writes files.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/collective/world.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/saver.h"
#include "framework/runtime/session.h"

namespace belfry::trainers {

// True if a slot of the session is divided among towers.
bool HasSlotParts(const Session& session);

// All tasks call these at the same point, with a tag (World::NewTag) that nothing else uses at the time. Errors: those
// of World::Exchange, and of reading and writing variables.

// In task 0 returns the parts of slots that the other tasks hold; in these, nothing.
absl::StatusOr<std::vector<SlotPart>> GatherSlotParts(World& world, int tag, Session& session, absl::Time deadline);
// Gives the parts of slots in all tasks but 0 their elements of task 0's `tensors`. InvalidArgument if there is no such
// tensor, or one of another dtype or with fewer elements.
absl::Status DealSlotParts(World& world, int tag, Session& session, absl::Span<const io::NamedTensor> tensors,
                           absl::Time deadline);

}  // namespace belfry::trainers
