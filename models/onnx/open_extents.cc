#include <algorithm>
#include <array>
#include <set>

#include "absl/strings/str_cat.h"
#include "models/onnx/open_extents_impl.h"

namespace belfry::onnx {
namespace {

// Large enough for windows over images, and far enough apart that what clamps an extent does not go unnoticed.
constexpr std::array<int64_t, 3> kFirstSize = {1009, 20011, 100003};
constexpr int64_t kSizeStep = 2;

int64_t SizeIn(size_t extent, size_t turn) { return kFirstSize[turn] + kSizeStep * static_cast<int64_t>(extent); }

std::string NameOf(const Shape& shape, int axis) {
  if (axis == 0) return "N";
  if (shape.rank() == 4 && axis < 3) return axis == 1 ? "H" : "W";
  return axis == 1 ? "T" : absl::StrCat("D", axis);
}

}  // namespace

OpenExtents::OpenExtents(const SavedModel& model) {
  const auto infer = [&](const auto& share) {
    Number(model, share);
    turns_.clear();
    bool fits = true;
    for (size_t turn = 0; turn < kFirstSize.size(); ++turn) fits = Infer(model, turn) && fits;
    return fits;
  };
  // Inputs that meet must have one N, and perhaps one T.
  if (infer([](int) { return false; })) return;
  if (infer([](int axis) { return axis == 0; })) return;
  infer([](int) { return true; });
}

template <class Share>
void OpenExtents::Number(const SavedModel& model, const Share& share) {
  extents_.clear();
  of_input_.clear();
  std::set<std::string> names;
  for (size_t input = 0; input < model.inputs().size(); ++input) {
    const Shape& shape = model.inputs()[input].value.shape();
    std::vector<size_t>& numbers = of_input_.emplace_back();
    for (int axis = 0; axis < shape.rank(); ++axis) {
      auto at = extents_.end();
      if (shape[axis] == Shape::kUnknown && share(axis)) {
        at = std::find_if(extents_.begin(), extents_.end(), [&](const OpenExtent& e) { return e.axis == axis; });
      }
      numbers.push_back(static_cast<size_t>(at - extents_.begin()));
      if (shape[axis] != Shape::kUnknown || at != extents_.end()) continue;
      std::string name = NameOf(shape, axis);
      for (int i = 1; !names.insert(name).second; ++i) name = absl::StrCat(NameOf(shape, axis), "_", i);
      extents_.push_back({std::move(name), input, axis});
    }
  }
}

bool OpenExtents::Infer(const SavedModel& model, size_t turn) {
  const Graph& graph = model.session().graph();
  Shapes& shapes = turns_.emplace_back(graph.size());
  for (size_t input = 0; input < model.inputs().size(); ++input) {
    const Output& value = model.inputs()[input].value;
    Shape shape = value.shape();
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == Shape::kUnknown)
        shape.set_dim(axis, SizeIn(of_input_[input][static_cast<size_t>(axis)], turn));
    }
    shapes[static_cast<size_t>(value.node->id())] = {shape};
  }
  bool fits = true;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    std::vector<Shape>& outputs = shapes[static_cast<size_t>(id)];
    if (!outputs.empty()) continue;
    std::vector<Shape> inputs;
    std::vector<DType> dtypes;
    for (const Output& input : node.inputs()) {
      inputs.push_back(shapes[static_cast<size_t>(input.node->id())][static_cast<size_t>(input.index)]);
      dtypes.push_back(input.dtype());
    }
    absl::StatusOr<std::vector<Shape>> inferred =
        node.op().shape({.attrs = node.attrs(), .inputs = inputs, .dtypes = dtypes});
    if (inferred.ok() && inferred->size() == node.outputs().size()) {
      outputs = *std::move(inferred);
      continue;
    }
    fits = false;
    for (const TensorSpec& output : node.outputs()) outputs.push_back(output.shape);
  }
  return fits;
}

std::optional<size_t> OpenExtents::Find(const Output& value, int axis) const {
  if (value.shape()[axis] != Shape::kUnknown) return std::nullopt;
  for (size_t extent = 0; extent < extents_.size(); ++extent) {
    bool equal = true;
    for (size_t turn = 0; turn < turns_.size() && equal; ++turn) {
      const Shape& shape = turns_[turn][static_cast<size_t>(value.node->id())][static_cast<size_t>(value.index)];
      equal = shape[axis] == SizeIn(extent, turn);
    }
    if (equal) return extent;
  }
  return std::nullopt;
}

}  // namespace belfry::onnx
