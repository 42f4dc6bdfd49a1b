// Checking one use of an op against its definition: attributes, types, shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/op_def.h"

namespace belfry {

// `given` completed with the op's default attributes and its type variables. Errors: an unknown or missing attribute,
// one of the wrong type, a wrong number of inputs, inputs whose dtypes do not fit the op.
absl::StatusOr<Attrs> CompleteAttrs(const OpDef& op, absl::Span<const DType> inputs, const Attrs& given);

// The dtypes and shapes of the outputs. REQUIRES: `attrs` are complete.
absl::StatusOr<std::vector<TensorSpec>> InferOutputs(const OpDef& op, const Attrs& attrs,
                                                     absl::Span<const Shape> shapes, absl::Span<const DType> dtypes);

// The dtype that selects the op's kernel: its first type variable's. REQUIRES: the op has one, and `attrs` are
// complete.
DType KernelDType(const OpDef& op, const Attrs& attrs);

// For an op of kind kView: where its output begins in its input, in elements.
int64_t ViewBegin(const OpDef& op, const Attrs& attrs);

}  // namespace belfry
