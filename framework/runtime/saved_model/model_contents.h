// The contents of a saved model's file, from which its nodes are added to a graph, as often as a program has towers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace belfry {

// An input or an output of a model, by the name that its users know: "image", "logits".
struct NamedOutput {
  std::string name = {};  // not empty, and UTF-8
  Output value = {};
};

struct ModelEnds {
  std::vector<NamedOutput> inputs, outputs;
};

enum class ModelMode {
  kFixed,    // variables stay the constants that the file has
  kTrained,  // constants that were variables are variables again
};

// A file whose description has been read. Movable. Thread-safe, as far as the graph is.
class ModelContents {
 public:
  // Errors: NotFound: no file. DataLoss: it is damaged. InvalidArgument: it is not a saved model. Unimplemented: it was
  // written by a later version.
  static absl::StatusOr<ModelContents> Open(const std::string& path);
  ModelContents(ModelContents&&) noexcept;
  ModelContents& operator=(ModelContents&&) noexcept;
  ~ModelContents();

  // Adds the model's nodes in the scope, with their names below the scope's. `inputs` take the place of the
  // placeholders of these names; without any, the result has the placeholders.
  //
  // kTrained: variables are found or made by GetVariable, with their names below the scope's variable path, and
  // initialised with the values of the file, of which there is one copy in host memory. Variables that were not
  // trainable, such as the averages of a batch norm, stay so.
  //
  // Errors: InvalidArgument: the file has no graph, or an input is missing, unknown, or of another dtype or shape.
  // Unimplemented: an op or an attribute that the graph's registry lacks; kTrained: a file of a version that does not
  // say which constants were variables. DataLoss: a tensor is damaged. Errors of the graph stick to it.
  absl::StatusOr<ModelEnds> Build(const Scope& scope, ModelMode mode, absl::Span<const NamedOutput> inputs = {}) const;

 private:
  struct File;
  explicit ModelContents(std::unique_ptr<File> file);

  std::unique_ptr<File> file_;
};

}  // namespace belfry
