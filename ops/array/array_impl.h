// What the definitions of the array family share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/graph/op_def.h"
#include "framework/graph/scope.h"
#include "ops/array/strided_copy_impl.h"

namespace belfry::ops {

// Kernels of an op that moves bytes whatever they mean: the same factory for every dtype.
std::vector<KernelDef> AnyTypeKernels(const KernelFactory& make);

// A kernel that copies input 0 to output 0 along `axes`.
absl::StatusOr<Kernel> MakeCopyKernel(const KernelSpec& spec, std::vector<CopyAxis> axes, int64_t from_offset = 0,
                                      int64_t to_offset = 0);

// The bits of `value` converted to `dtype` (ConvertElement), in the lowest SizeOf(dtype) bytes.
uint64_t ElementBits(double value, DType dtype);
// Sets `n` elements of `element_size` bytes to the lowest bytes of `bits`.
void FillElements(void* to, int64_t n, size_t element_size, uint64_t bits);

// The shape of input 0.
absl::StatusOr<std::vector<Shape>> UnchangedShape(const ShapeArgs& args);

// The gradient of an op that broadcasts `x` to the shape of `dy`: dy summed to x's shape.
Output SumToShapeOf(const Scope& scope, Output dy, Output x);

}  // namespace belfry::ops
