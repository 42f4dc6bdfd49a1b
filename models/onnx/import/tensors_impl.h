// The tensors of ONNX files. Internal.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"
#include "models/onnx/onnx.pb.h"

namespace belfry::onnx {

// Tensors have no more axes, so that a small file cannot ask for long lists of them in each node.
inline constexpr int kMaxRank = 64;

// Our dtype of an ONNX type; nullopt if there is none.
std::optional<DType> DTypeOfElements(int32_t data_type);
// Unimplemented, with the type's number, if there is none.
absl::StatusOr<DType> RequireDType(int32_t data_type);

// The bytes of the elements that a tensor's dims ask for; the largest size_t if they are not a shape of ours.
size_t BytesOf(const TensorProto& proto);

// Reads tensors, those in other files, too. Memory is taken only for elements that a file has, and for those of another
// file at most four times its size. Not thread-safe.
class TensorReader {
 public:
  // `folder` is the model's.
  explicit TensorReader(std::string folder) : folder_(std::move(folder)) {}

  // Errors: InvalidArgument: dims that are not a shape, or another number of elements; a file that is not below the
  // folder. Unimplemented: a dtype that we lack; more than 64 axes. NotFound, and others of io::InputFile: those of a
  // file of elements.
  absl::StatusOr<Tensor> Read(const TensorProto& proto) const;

 private:
  absl::Status ReadExternal(const TensorProto& proto, Tensor& tensor) const;

  std::string folder_;
  mutable std::map<std::string, uint64_t> read_;  // bytes of other files
};

}  // namespace belfry::onnx
