// A dataset over the caller's tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "framework/data/dataset.h"

namespace belfry::data {

// A field of all examples.
struct TensorField {
  std::string name = {};
  Tensor examples = {};                          // [N, ...], of any dtype
  int64_t categories = 0;                        // see Field
  std::vector<std::string> category_names = {};  // likewise
};

// FromTensors({{"image", images}, {"label", labels, 10}}). InvalidArgument: no field, fields with other numbers of
// examples, what CheckFields refuses, or an element outside [0, categories), of which the first is named. The buffers
// are shared, not copied, and must not be written afterwards.
absl::StatusOr<std::unique_ptr<Dataset>> FromTensors(std::vector<TensorField> fields);

}  // namespace belfry::data
