// Reading of a position from a checkpoint's metadata. Internal.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/data/sampler.h"
#include "framework/io/safetensors.h"

namespace belfry::data {

// The position in `saved`, for a source that writes `now` as its own (BatchSource::PutPosition). FailedPrecondition,
// with both values and the remedy, if anything else in `now` is not as it was then. InvalidArgument: `saved` has no
// position, or it is not one of an epoch of `batches`.
absl::StatusOr<Position> PositionIn(const io::Metadata& saved, const io::Metadata& now, int64_t batches);

}  // namespace belfry::data
