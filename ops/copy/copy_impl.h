// Helpers for the definitions of the copy ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"
#include "ops/copy/element_bits.h"
#include "ops/copy/strided_copy_impl.h"

namespace belfry::ops {

// Kernels of an op that moves bytes regardless of their meaning: the same factory for every dtype.
std::vector<KernelDef> AnyTypeKernels(const KernelFactory& make);

// Sets `n` elements of `element_size` bytes to the lowest bytes of `bits`.
void FillElements(void* to, int64_t n, size_t element_size, uint64_t bits);

// Shape rule: the shape of input 0.
absl::StatusOr<std::vector<Shape>> UnchangedShape(const ShapeArgs& args);

// The gradient of an op that broadcasts `x` to the shape of `dy`: dy summed to the shape of x.
Output SumToShapeOf(const Scope& scope, Output dy, Output x);

}  // namespace belfry::ops
