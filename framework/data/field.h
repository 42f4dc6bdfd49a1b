// Fields: the named tensors of an example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"

namespace belfry::data {

struct ImagesInStep;  // framework/data/augment.h

// One of the tensors that every example of a dataset has. In a batch of N examples it is a tensor [N, ...].
struct Field {
  std::string name = {};  // "image", "label", "tokens"
  DType dtype = DType::kFloat32;
  Shape shape = {};  // of one example, [] for a number; fully known. Images are [H, W, C].
  // Integers that stand for classes, words or other categories: every element is in [0, categories). 0: any numbers.
  int64_t categories = 0;
  std::vector<std::string> category_names = {};  // empty, or one for each
  // If not null, what models see as this field is images, float32, that the step makes of what is in the batch.
  std::shared_ptr<const ImagesInStep> in_step = {};

  size_t bytes() const { return static_cast<size_t>(shape.elements()) * SizeOf(dtype); }
  // "image uint8 [32,32,3]"
  std::string ToString() const;
};

// "image uint8 [32,32,3], label int32 []"
std::string FieldsText(absl::Span<const Field> fields);

// The index of the field of that name. NotFound lists the fields there are.
absl::StatusOr<size_t> FindField(absl::Span<const Field> fields, absl::string_view name);

// InvalidArgument: there is no field, one without a name, two of the same name, or a shape that is not fully known;
// categories below 0, for non-integer numbers, or with names for only some of them.
absl::Status CheckFields(absl::Span<const Field> fields);

}  // namespace belfry::data
