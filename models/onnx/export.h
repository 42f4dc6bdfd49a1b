// Saved models as ONNX files, which the runtimes of others read (onnx.ai).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/runtime/saved_model/saved_model.h"

namespace belfry::models {

// The version of ONNX's operators that files state. What it lacks, such as GELU and RMS norm, is written in its terms.
inline constexpr int64_t kOnnxOpset = 17;

struct OnnxSummary {
  int64_t nodes = 0;
  int64_t bytes = 0;  // of the file
};

// Writes a model to `path` as one ONNX file, which replaces it as a whole. Inputs and outputs keep their names, dtypes
// and shapes, images their order [N, H, W, C]; extents that are open stay open and are named "N", "T", "H" and "W",
// equal ones alike. Variables become initializers with their names; filters are transposed. What does not depend on
// inputs is computed now, by the model's session. bfloat16 is computed in float32 and rounded after each op, as our
// kernels do, because the opset has no convolution of it.
//
// Errors: Unimplemented: an op without a rule, or what its rule does not cover, with the node; or a model of more
// than 2 GiB, which no protobuf message can hold. InvalidArgument: an input and an output of one name. Others are those
// of io::WriteFile and Session::Run. Thread-safe.
absl::StatusOr<OnnxSummary> ExportOnnx(const SavedModel& model, const std::string& path);

}  // namespace belfry::models
