// ONNX files (onnx.ai) as saved models, so that networks of PyTorch and others run and train here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/tensor.h"

namespace belfry::models {

// The opsets that the rules cover. Nodes of later ones are read by the last rule for their op, with a warning; earlier
// opsets are an error.
inline constexpr int64_t kOldestOnnxOpset = 7, kNewestOnnxOpset = 21;

struct ImportOptions {
  // Images, the inputs of four axes, are [N, H, W, C] as ours are, and so are outputs that convolutions leave in that
  // order. Otherwise shapes are the file's, [N, C, H, W].
  bool channels_last = false;
};

// An input or an output of an imported model.
struct ImportedEnd {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

struct ImportSummary {
  int64_t opset = 0;
  int64_t nodes = 0;       // of the ONNX graph, as far as outputs depend on them
  int64_t parameters = 0;  // elements of all variables
  std::vector<ImportedEnd> inputs, outputs;
};

// Reads the ONNX file `path`, and writes it as a saved model to `output`, which is replaced as a whole. Names of inputs
// and outputs stay, and open extents stay open. Initializers of floats become variables of their names, with characters
// that names of ours cannot have as "_": trainable, except the averages of batch norms. Scalars stay constants, and so
// do tensors with an infinite or NaN element, such as masks. Filters become [R, S, C, K] and weights of Gemm
// [from, to], as ours are. What depends on constants and shapes alone is computed now.
//
// Errors: Unimplemented: an uncovered op, attribute or dtype, with the node and the reason.
// InvalidArgument and DataLoss: what is wrong with the file. Elements in other files must be below the model's folder.
// Other errors are as for io::ReadFile and SaveModel. Takes memory in proportion to the files. Thread-safe.
absl::StatusOr<ImportSummary> ImportOnnx(const std::string& path, const std::string& output,
                                         const ImportOptions& options = {});

}  // namespace belfry::models
