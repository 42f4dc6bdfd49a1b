// Digests of what a training step is fed.
#pragma once

#include <cstdint>

#include "framework/data/batch_source.h"

namespace belfry::trainers {

// The sum, modulo 2^64, of a checksum of each field of each example in the towers of this process: of its bytes, of the
// field's number and of the example's index in the whole batch. So the sum over all processes does not depend on how
// examples are dealt to towers and towers to processes. It takes about as long as reading the batch from memory.
uint64_t BatchDigest(const data::Batch& batch);

}  // namespace belfry::trainers
