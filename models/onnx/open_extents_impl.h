// The extents that a model leaves open, by name. Internal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/runtime/saved_model/saved_model.h"

namespace belfry::onnx {

// An open extent of an input. Several inputs may share one, the batch.
struct OpenExtent {
  std::string name;  // "N"
  size_t input = 0;  // the first input that has it
  int axis = 0;
};

// Finds the open extents of a model's values among those of its inputs. The ops' shape rules are run on three sets of
// sizes that no other extent is likely to have; an extent that equals an input's in all three is that extent.
class OpenExtents {
 public:
  explicit OpenExtents(const SavedModel& model);

  const std::vector<OpenExtent>& extents() const { return extents_; }
  // The index in extents() of an extent of a value; nullopt if it is known, or another number such as a product.
  std::optional<size_t> Find(const Output& value, int axis) const;

 private:
  using Shapes = std::vector<std::vector<Shape>>;  // by node and output

  // Gives the open extents of inputs numbers; those of one axis share one if `share` (axis) is true.
  template <class Share>
  void Number(const SavedModel& model, const Share& share);
  // False if a shape rule refuses the sizes; the shapes after it are as open as the model's.
  bool Infer(const SavedModel& model, size_t turn);

  std::vector<OpenExtent> extents_;
  std::vector<std::vector<size_t>> of_input_;  // by input and axis
  std::vector<Shapes> turns_;
};

}  // namespace belfry::onnx
