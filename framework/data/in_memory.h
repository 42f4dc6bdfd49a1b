// A dataset over the caller's tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "framework/data/dataset.h"

namespace belfry::data {

// `inputs` is float32 [N, ...] features or uint8 [N, H, W, C] images; `targets` is float32 [N], the numbers to predict.
// InvalidArgument for other dtypes or shapes. The buffers are shared, not copied, and must not be written afterwards.
absl::StatusOr<std::unique_ptr<Dataset>> FromTensors(const Tensor& inputs, const Tensor& targets);

// The same with `labels`, int32 [N] in [0, classes); InvalidArgument names the first example whose label is out of
// range. `class_names` is empty or has `classes` entries.
absl::StatusOr<std::unique_ptr<Dataset>> FromTensors(const Tensor& inputs, const Tensor& labels, int32_t classes,
                                                     std::vector<std::string> class_names = {});

}  // namespace belfry::data
