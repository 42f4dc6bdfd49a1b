// Registration of the ops on images, and what their kernels share. Internal.
#pragma once

#include "absl/status/statusor.h"
#include "framework/data/augment.h"
#include "framework/graph/kernel_table.h"
#include "framework/graph/op_def.h"

namespace belfry::ops {

void RegisterImageOps(OpRegistry& registry);  // augment_images.cc

// The policy of a node's attributes, for images [..., H, W, C].
absl::StatusOr<data::Augmenter> AugmenterOf(const Attrs& attrs, const Shape& images);

// In the CUDA module.
void AddImageGpuKernels(KernelTable& table);  // augment_images.cu

}  // namespace belfry::ops
