// Models of a test as ONNX files.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "models/onnx/export.h"
#include "models/onnx/import.h"
#include "ops/builtin_ops.h"
#include "tests/models/model_test.h"

namespace belfry::models {

// Gives vectors, such as biases, and weights that begin with zeros other values, without which much would be hidden.
inline absl::Status RandomVariables(Session& session) {
  for (const Variable& variable : session.graph().variables()) {
    if (variable.dtype() != DType::kFloat32) continue;
    ASSIGN_OR_RETURN(Tensor value, session.ReadVariable(variable));
    const absl::Span<const float> all = value.span<float>();
    const bool zeros = std::all_of(all.begin(), all.end(), [](float element) { return element == 0; });
    if (variable.shape().rank() != 1 && !zeros) continue;
    std::uniform_real_distribution<float> uniform(0.2f, 1.0f);
    std::normal_distribution<float> normal(0, 0.1f);
    for (int64_t i = 0; i < value.elements(); ++i) {
      value.data<float>()[i] = variable.shape().rank() == 1 ? uniform(TestRandom()) : normal(TestRandom());
    }
    RETURN_IF_ERROR(session.WriteVariable(variable, value));
  }
  return absl::OkStatus();
}

// The largest difference as a factor of the largest element of `expected`; infinite if they differ in kind.
inline double Difference(const Tensor& actual, const Tensor& expected) {
  if (actual.shape() != expected.shape() || actual.dtype() != expected.dtype()) return INFINITY;
  const std::vector<double> a = actual.ToDoubles(), b = expected.ToDoubles();
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    difference = a[i] == b[i] ? difference : std::max(difference, std::abs(a[i] - b[i]));
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isfinite(b[i])) largest = std::max(largest, std::abs(b[i]));
  }
  return difference == 0 ? 0 : difference / std::max(largest, 1e-30);
}

class OnnxTest : public ModelTest {
 protected:
  std::string File(const std::string& name) const { return folder_ / name; }

  // An ONNX file as a saved model, opened.
  absl::StatusOr<SavedModel> Import(const std::string& onnx, const ImportOptions& options = {}) const {
    const std::string file = absl::StrCat(onnx, ".imported");
    RETURN_IF_ERROR(ImportOnnx(onnx, file, options).status());
    return SavedModel::Open(file, BuiltinOps(), devices_);
  }

  // The graph so far as a saved model, opened again.
  absl::StatusOr<SavedModel> Save(const std::vector<NamedOutput>& inputs, const std::vector<NamedOutput>& outputs) {
    Start();
    RETURN_IF_ERROR(RandomVariables(*session_));
    const std::string file = File("saved.safetensors");
    RETURN_IF_ERROR(SaveModel(*session_, inputs, outputs, file));
    return SavedModel::Open(file, BuiltinOps(), devices_);
  }

  const TemporaryFolder folder_;
};

}  // namespace belfry::models
