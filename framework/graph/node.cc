#include "framework/graph/node.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace belfry {

const Shape& Output::shape() const {
  static const Shape& invalid = *new Shape(Shape::Invalid());
  return valid() ? node->outputs()[index].shape : invalid;
}

std::string Node::Summary() const {
  std::vector<std::string> attrs, inputs;
  for (const auto& [name, value] : attrs_.values()) attrs.push_back(absl::StrCat(name, "=", AttrToString(value)));
  if (!device_text().empty()) attrs.push_back(absl::StrCat("_device=\"", device_text(), "\""));
  for (const Output& input : inputs_) inputs.push_back(input.index == 0 ? input.node->name() : input.name());
  for (const Node* control : control_inputs_) inputs.push_back(absl::StrCat("^", control->name()));
  return absl::StrCat(name_, " = ", op_->name, "[", absl::StrJoin(attrs, ", "), "](", absl::StrJoin(inputs, ", "), ")");
}

}  // namespace belfry
