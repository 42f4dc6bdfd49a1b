// The fields of examples in classes.
#pragma once

#include <vector>

#include "framework/data/field.h"

namespace belfry::models {

// "image", float32 of that shape, and "label", int32 [].
inline std::vector<data::Field> ClassifiedFields(const Shape& shape) {
  return {{"image", DType::kFloat32, shape}, {"label", DType::kInt32, {}}};
}

}  // namespace belfry::models
