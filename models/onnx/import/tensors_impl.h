// The tensors of ONNX files. Internal.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "models/onnx/onnx.pb.h"

namespace belfry::onnx {

// Our dtype of an ONNX type; nullopt if there is none.
std::optional<DType> DTypeOfElements(int32_t data_type);
// Unimplemented, with the type's number, if there is none.
absl::StatusOr<DType> RequireDType(int32_t data_type);

// Reads tensors, those in other files, too. Memory is taken only for elements that a file has.
class TensorReader {
 public:
  // `folder` is that of the model.
  explicit TensorReader(std::string folder) : folder_(std::move(folder)) {}

  // Errors: InvalidArgument: dims that are no shape, or another number of elements; a file that is not below the
  // folder. Unimplemented: a dtype that we lack. NotFound, and others of io::InputFile: those of a file of elements.
  absl::StatusOr<Tensor> Read(const TensorProto& proto) const;

 private:
  absl::Status ReadExternal(const TensorProto& proto, Tensor& tensor) const;

  std::string folder_;
};

}  // namespace belfry::onnx
