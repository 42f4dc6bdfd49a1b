// Constants with their axes in another order. Internal.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "framework/base/tensor.h"

namespace belfry::onnx {

// Axis i of the result is axis perm[i] of x. REQUIRES: `perm` names each axis of x once.
Tensor Permuted(const Tensor& x, absl::Span<const int64_t> perm);

// [R, C] whose columns are cut into as many equal blocks as `order` has numbers: block i of the result is block
// order[i] of x.
Tensor WithBlocks(const Tensor& x, absl::Span<const int64_t> order);

}  // namespace belfry::onnx
