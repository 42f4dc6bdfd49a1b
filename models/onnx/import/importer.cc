#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/import/importer_impl.h"
#include "ops/array.h"

namespace belfry::onnx {
namespace {

// True for a number of the program, such as the factor of attention, to which PyTorch's exporter gave such a name.
bool IsLiftedNumber(const TensorProto& tensor) {
  return absl::StartsWith(tensor.name(), "val_") &&
         std::all_of(tensor.dims().begin(), tensor.dims().end(), [](int64_t extent) { return extent == 1; });
}

}  // namespace

const ImportRule* FindImportRule(absl::string_view op) {
  for (const absl::Span<const ImportRule> rules :
       {ElementwiseImports(), ActivationImports(), ShapeImports(), ArrayImports(), PartImports(), ImageImports(),
        NormImports(), MatrixImports(), ReductionImports(), RecurrentImports()}) {
    for (const ImportRule& rule : rules) {
      if (rule.op == op) return &rule;
    }
  }
  return nullptr;
}

Importer::Importer(const Scope& scope, const GraphProto& graph, int64_t opset, const TensorReader& tensors,
                   Options options)
    : root_(scope), graph_(graph), opset_(opset), tensors_(tensors), options_(options), scope_(scope) {}

absl::Status Importer::AddAll() {
  RETURN_IF_ERROR(FindNeeded());
  RETURN_IF_ERROR(AddInitializers());
  RETURN_IF_ERROR(AddInputs());
  for (int i = 0; i < graph_.node_size(); ++i) {
    const NodeProto& node = graph_.node(i);
    const bool used = std::any_of(node.output().begin(), node.output().end(),
                                  [&](const std::string& output) { return needed_.contains(output); });
    if (!used) continue;
    scope_ = root_.WithLocation({"ONNX node", i + 1});
    RETURN_IF_ERROR(AddNode(node));
    ++added_;
  }
  return AddOutputs();
}

// Marks the values on which outputs depend, and counts their readers.
absl::Status Importer::FindNeeded() {
  if (graph_.output_size() == 0) return absl::InvalidArgumentError("has no outputs");
  for (const ValueInfoProto& output : graph_.output()) needed_.insert(output.name());
  for (int i = graph_.node_size() - 1; i >= 0; --i) {
    const NodeProto& node = graph_.node(i);
    const bool used = std::any_of(node.output().begin(), node.output().end(), [&](const std::string& output) {
      return !output.empty() && needed_.contains(output);
    });
    if (!used) continue;
    for (const std::string& input : node.input()) {
      if (input.empty()) continue;
      needed_.insert(input);
      readers_[input] += node.op_type() == "Identity" ? 0 : 1;  // which copies a weight
    }
  }
  return absl::OkStatus();
}

absl::Status Importer::AddInitializers() {
  for (const TensorProto& tensor : graph_.initializer()) {
    const auto [value, is_new] = values_.try_emplace(tensor.name());
    if (!is_new || tensor.name().empty()) {
      return absl::InvalidArgumentError(absl::StrCat("has two initializers '", tensor.name(), "', or one of no name"));
    }
    value->second = ValueOf(tensor, tensor.name());
  }
  return absl::OkStatus();
}

Importer::Value Importer::ValueOf(const TensorProto& tensor, const std::string& name) {
  const std::optional<DType> dtype = DTypeOfElements(tensor.data_type());
  const bool parameter = dtype && IsFloating(*dtype) && tensor.dims_size() > 0 && !IsLiftedNumber(tensor);
  return {.initializer = &tensor, .source = &tensor, .name = name, .parameter = parameter};
}

absl::StatusOr<Shape> Importer::ShapeOfInput(const ValueInfoProto& input) const {
  if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) {
    return absl::UnimplementedError(absl::StrCat("input '", input.name(), "' is no tensor of known rank"));
  }
  if (input.type().tensor_type().shape().dim_size() > kMaxRank) {
    return absl::UnimplementedError(absl::StrCat("input '", input.name(), "' has more than 64 axes"));
  }
  std::vector<int64_t> dims;
  for (const TensorShapeProto::Dimension& dim : input.type().tensor_type().shape().dim()) {
    const bool known = dim.value_case() == TensorShapeProto::Dimension::kDimValue && dim.dim_value() >= 0;
    dims.push_back(known ? dim.dim_value() : Shape::kUnknown);
  }
  return Shape::Make(dims);
}

absl::Status Importer::AddInputs() {
  for (const ValueInfoProto& input : graph_.input()) {
    if (const auto found = values_.find(input.name()); found != values_.end()) {
      if (found->second.initializer != nullptr) continue;  // early versions list initializers, too
      return absl::InvalidArgumentError(absl::StrCat("has two inputs '", input.name(), "'"));
    }
    ASSIGN_OR_RETURN(Shape shape, ShapeOfInput(input));
    const absl::StatusOr<DType> dtype = RequireDType(input.type().tensor_type().elem_type());
    if (!dtype.ok()) {
      return absl::Status(dtype.status().code(), absl::StrCat("input '", input.name(), "' ", dtype.status().message()));
    }
    const bool last = options_.channels_last && shape.rank() == 4 && IsFloating(*dtype);
    if (last) shape = Shape({shape[0], shape[2], shape[3], shape[1]});
    const Output value = ops::Placeholder(root_.Named(CleanName(input.name(), "input")), *dtype, shape);
    Value& held = values_[input.name()];
    (last ? held.channels_last : held.onnx) = value;
    inputs_.emplace_back(input.name(), value);
  }
  return root_.status();
}

absl::Status Importer::AddOutputs() {
  for (const ValueInfoProto& output : graph_.output()) {
    const auto found = values_.find(output.name());
    if (found == values_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("has an output '", output.name(), "' that no node gives"));
    }
    Value& value = found->second;
    scope_ = root_.NameScope(CleanName(absl::StrCat(output.name(), "/output"), "output"));
    const bool last = options_.channels_last && value.channels_last.valid() && !value.constant;
    outputs_.emplace_back(output.name(), Get(value, last ? Order::kChannelsLast : Order::kOnnx));
    RETURN_IF_ERROR(error_);
  }
  return root_.status();
}

absl::Status Importer::AddNode(const NodeProto& node) {
  node_ = &node;
  const std::string name =
      absl::StrCat("'", node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(), "' (op_type ",
                   node.op_type(), ")");
  const bool ours = node.domain().empty() || node.domain() == "ai.onnx";
  rule_ = ours ? FindImportRule(node.op_type()) : nullptr;
  if (rule_ == nullptr) {
    return absl::UnimplementedError(absl::StrCat("node ", name, ours ? "" : absl::StrCat(" of domain ", node.domain()),
                                                 " has no rule: Belfry's import does not cover this op"));
  }
  const absl::Status status = AddByRule();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("node ", name, ": ", status.message()));
}

absl::Status Importer::AddByRule() {
  for (const std::string& input : node_->input()) {
    if (!input.empty() && !values_.contains(input)) {
      return absl::InvalidArgumentError(absl::StrCat("reads '", input, "', which no node before it gives"));
    }
  }
  for (const std::string& output : node_->output()) {
    if (!output.empty() && values_.contains(output)) {
      return absl::InvalidArgumentError(absl::StrCat("gives '", output, "', which exists already"));
    }
  }
  scope_ = scope_.NameScope(CleanName(node_->name().empty() ? node_->op_type() : node_->name(), node_->op_type()));
  error_ = absl::OkStatus();
  const absl::Status status = rule_->add(*this);
  RETURN_IF_ERROR(error_);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(root_.status());
  Fold();
  for (const std::string& output : node_->output()) {
    if (!output.empty() && needed_.contains(output) && !values_.contains(output)) {
      return absl::UnimplementedError(absl::StrCat("its output '", output, "' is not covered"));
    }
  }
  return error_;
}

std::string Importer::CleanName(absl::string_view name, absl::string_view otherwise) const {
  std::string clean;
  for (const char c : name) {
    const bool plain = absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-' || c == '/';
    const bool leading = clean.empty() && !absl::ascii_isalnum(c);
    if (!leading) clean += plain ? c : '_';
  }
  while (!clean.empty() && clean.back() == '/') clean.pop_back();
  return clean.empty() ? std::string(otherwise) : clean;
}

const AttributeProto* Importer::Attribute(absl::string_view name) const {
  for (const AttributeProto& attribute : node_->attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t Importer::Int(absl::string_view name, int64_t otherwise) const {
  const AttributeProto* const attribute = Attribute(name);
  return attribute == nullptr ? otherwise : attribute->i();
}

double Importer::Float(absl::string_view name, double otherwise) const {
  const AttributeProto* const attribute = Attribute(name);
  return attribute == nullptr ? otherwise : attribute->f();
}

std::string Importer::String(absl::string_view name, absl::string_view otherwise) const {
  const AttributeProto* const attribute = Attribute(name);
  return attribute == nullptr ? std::string(otherwise) : attribute->s();
}

std::vector<int64_t> Importer::Ints(absl::string_view name) const {
  const AttributeProto* const attribute = Attribute(name);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

}  // namespace belfry::onnx
