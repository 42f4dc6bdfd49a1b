// Models for inference: the part of a graph that computes outputs from inputs, with the values of its variables, as one
// file that a program can run without the code that built it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/device/device_set.h"
#include "framework/graph/graph.h"
#include "framework/runtime/saved_model/model_contents.h"
#include "framework/runtime/session.h"

namespace belfry {

// Writes the nodes that compute `outputs` from `inputs`, which are placeholders, and the session's values of the
// variables that they read. The values become constants with the variables' names, and control inputs and devices are
// dropped, so build the outputs as for an evaluation. Extents that the placeholders leave open stay open.
//
// The file is a safetensors file (io/safetensors.h) whose metadata describe the graph (docs/saved_models.md), replaced
// as a whole. Errors: InvalidArgument, with the node and its line, if an output needs a placeholder that is not an
// input, a node that updates a variable, or one that exchanges values between towers; for names that are empty or occur
// twice; FailedPrecondition if a variable has no value. Thread-safe.
absl::Status SaveModel(Session& session, absl::Span<const NamedOutput> inputs, absl::Span<const NamedOutput> outputs,
                       const std::string& path);

// A saved model, ready to run. Movable.
class SavedModel {
 public:
  // Reads a file. `registry` has the model's ops: BuiltinOps(), with those of the program that wrote it. It and
  // `devices` are borrowed. Errors: NotFound: no file. DataLoss: it is damaged. InvalidArgument: it is not a saved
  // model, or its graph is none. Unimplemented: it was written by a later version, or has an op that `registry` lacks.
  static absl::StatusOr<SavedModel> Open(const std::string& path, const OpRegistry& registry, const DeviceSet& devices,
                                         const SessionOptions& options = {});

  absl::Span<const NamedOutput> inputs() const { return inputs_; }
  absl::Span<const NamedOutput> outputs() const { return outputs_; }
  // The outputs for one value of each input, both in the order of the above. The first run with values of new shapes
  // compiles a plan for them. InvalidArgument: the name of an input that does not fit, with what it must be. Other
  // errors are those of Session::Run. Thread-safe; runs go side by side.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> values) const;
  // Compiles a step for inputs of these shapes, in the order of inputs(), that is to run again and again; its fetches
  // are the outputs. Errors: as above. Thread-safe. The step must not outlive this model.
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(absl::Span<const Shape> shapes) const;
  Session& session() const { return *session_; }

 private:
  SavedModel() = default;
  absl::Status Check(absl::Span<const TensorSpec> specs) const;

  std::unique_ptr<Graph> graph_;
  std::vector<NamedOutput> inputs_, outputs_;
  std::vector<Output> fetches_;
  std::unique_ptr<Session> session_;
};

}  // namespace belfry
