#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "models/onnx/exporter_impl.h"
#include "models/onnx/permute_impl.h"

namespace belfry::onnx {
namespace {

bool IsNarrow(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

std::string Described(const Node& node) { return absl::StrCat("'", node.name(), "' (op ", node.op().name, ")"); }

}  // namespace

const Rule* FindRule(absl::string_view op) {
  for (const absl::Span<const Rule> rules :
       {ElementwiseRules(), ArrayRules(), ImageRules(), MatrixRules(), AttentionRules(), RecurrentRules()}) {
    for (const Rule& rule : rules) {
      if (rule.op == op) return &rule;
    }
  }
  return nullptr;
}

Exporter::Exporter(const SavedModel& model, const OpenExtents& extents, const Constants& constants)
    : model_(model), extents_(extents), constants_(constants), extent_names_(extents.extents().size()) {
  const Graph& graph = model.session().graph();
  for (int id = 0; id < graph.size(); ++id) {
    for (const Output& input : graph.node(id).inputs()) ++readers_[input];
  }
  for (const NamedOutput& output : model.outputs()) {
    ++readers_[output.value];
    builder_.Unique(output.name);
  }
  AddInputs();
}

void Exporter::AddInputs() {
  for (const NamedOutput& input : model_.inputs()) {
    builder_.Unique(input.name);
    values_[input.value].forms[{}] = input.name;
  }
}

absl::Status Exporter::Write(const Node& node) {
  rule_ = FindRule(node.op().name);
  if (rule_ == nullptr) {
    return absl::UnimplementedError(absl::StrCat("The export to ONNX has no rule for ", Described(node)));
  }
  node_ = &node;
  builder_.set_name(node.name());
  const absl::Status status = rule_->write(*this);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("The export to ONNX cannot write ", Described(node), ": ", status.message()));
  }
  return missing_;
}

DType Exporter::ComputeType(DType dtype) const {
  const bool wide = dtype == DType::kBFloat16 || (dtype == DType::kFloat16 && rule_ != nullptr && rule_->wide);
  return wide ? DType::kFloat32 : dtype;
}

Exporter::Form Exporter::FormOf(const Output& output, Layout layout) const {
  return {layout, ComputeType(output.dtype()) != output.dtype()};
}

Output Exporter::Resolve(Output output) const {
  for (auto found = aliases_.find(output); found != aliases_.end(); found = aliases_.find(output)) {
    output = found->second;
  }
  return output;
}

std::string Exporter::Get(Output output, Form form) {
  output = Resolve(output);
  Value& value = values_[output];
  if (const auto found = value.forms.find(form); found != value.forms.end()) return found->second;
  if (constants_.contains(output) && form.layout == Layout::kAsGiven && !form.wide) {
    return value.forms[form] = builder_.Initializer(NameOfConstant(output), constants_.at(output));
  }
  if (value.forms.empty() && !constants_.contains(output)) {
    missing_.Update(absl::UnimplementedError(
        absl::StrCat("The export to ONNX does not write output ", output.index, " of ", Described(*output.node))));
    return "";
  }
  const std::string derived = Derive(output, form);
  return values_[output].forms[form] = derived;
}

// A change of dtype comes before one of the order: a form that exists in this order is only cast.
std::string Exporter::Derive(const Output& output, Form form) {
  const Form cast = {form.layout, !form.wide};
  const auto has = [&](Form other) { return values_[output].forms.contains(other); };
  const Layout other = form.layout == Layout::kAsGiven ? Layout::kChannelsFirst : Layout::kAsGiven;
  if (IsNarrow(output.dtype()) && (has(cast) || (!has({other, form.wide}) && form.wide))) {
    return CastTo(Get(output, cast), form.wide ? DType::kFloat32 : output.dtype());
  }
  const std::string from = Get(output, {other, form.wide});
  return Transpose(from, form.layout == Layout::kAsGiven ? kToChannelsLast : kToChannelsFirst);
}

// A variable's name, also where a node gives it in 16 bits.
std::string Exporter::NameOfConstant(const Output& output) const {
  const Node& node = *output.node;
  if (node.op().name == "Cast" && node.input(0).node->op().kind == OpKind::kConst) return node.input(0).node->name();
  return node.name();
}

std::string Exporter::ValueOf(const Output& value, Layout layout) { return Get(value, FormOf(value, layout)); }

std::string Exporter::Operand(int i, Layout layout) {
  const int rank = node_->input(i).shape().rank();
  if (layout == Layout::kAsGiven || rank == 0) return In(i);
  if (rank == 4) return In(i, layout);
  if (const Tensor* const constant = ConstantIn(i); constant != nullptr) {
    Shape shape = constant->shape();
    while (shape.rank() < 4) shape = shape.Insert(0, 1);
    return Changed(i, Permuted(constant->Reshaped(shape), kToChannelsFirst));
  }
  std::vector<int64_t> axes;
  for (int axis = 0; axis < 4 - rank; ++axis) axes.push_back(axis);
  return Transpose(Add("Unsqueeze", {In(i), Ints(axes)}), kToChannelsFirst);
}

bool Exporter::IsChannelsFirst(int i) const {
  const Output input = Resolve(node_->input(i));
  const auto value = values_.find(input);
  if (input.shape().rank() != 4 || value == values_.end() || constants_.contains(input)) return false;
  return std::any_of(value->second.forms.begin(), value->second.forms.end(),
                     [](const auto& form) { return form.first.layout == Layout::kChannelsFirst; });
}

Layout Exporter::ResultLayout() const {
  if (node_->output(0).shape().rank() != 4) return Layout::kAsGiven;
  for (int i = 0; i < static_cast<int>(node_->inputs().size()); ++i) {
    if (IsChannelsFirst(i)) return Layout::kChannelsFirst;
  }
  return Layout::kAsGiven;
}

const Tensor* Exporter::ConstantOf(const Output& value) const {
  const auto found = constants_.find(Resolve(value));
  return found == constants_.end() ? nullptr : &found->second;
}

std::string Exporter::Changed(const Output& constant, const Tensor& value) {
  const std::string name = builder_.Initializer(NameOfConstant(Resolve(constant)), value);
  const DType dtype = ComputeType(value.dtype());
  return dtype == value.dtype() ? name : CastTo(name, dtype);
}

void Exporter::Out(const std::string& name, Layout layout, int k) {
  const Output output = node_->output(k);
  Value& value = values_[output];
  value.raw = name;
  value.raw_layout = layout;
  const Form form = FormOf(output, layout);
  const bool rounds = form.wide && !rule_->exact;
  value.forms[{layout, form.wide && rule_->exact}] = rounds ? CastTo(name, output.dtype()) : name;
}

void Exporter::SameAsInput() { aliases_[node_->output(0)] = node_->input(0); }

NodeProto* Exporter::SoleProducer(absl::string_view op) {
  const auto value = values_.find(node_->input(0));
  if (value == values_.end() || readers_[node_->input(0)] != 1) return nullptr;
  NodeProto* const producer = builder_.Producer(value->second.raw);
  return producer != nullptr && producer->op_type() == op ? producer : nullptr;
}

std::pair<std::string, Layout> Exporter::RawInput() const {
  const Value& value = values_.at(node_->input(0));
  return {value.raw, value.raw_layout};
}

std::string Exporter::Transpose(const std::string& x, absl::Span<const int64_t> perm) {
  return Add("Transpose", {x}, {{"perm", std::vector<int64_t>(perm.begin(), perm.end())}});
}

std::string Exporter::CastTo(const std::string& x, DType dtype) {
  return Add("Cast", {x}, {{"to", int64_t{ElementType(dtype)}}});
}

Dim Exporter::DimOf(const Output& value, int axis) {
  const Shape& shape = value.shape();
  if (shape[axis] != Shape::kUnknown) return {shape[axis]};
  axis = axis < 0 ? axis + shape.rank() : axis;
  const auto extent_of = [&](const std::string& of, int64_t at) {
    return Add("Shape", {of}, {{"start", at}, {"end", at + 1}});
  };
  if (const std::optional<size_t> extent = extents_.Find(value, axis)) {
    const OpenExtent& open = extents_.extents()[*extent];
    std::string& name = extent_names_[*extent];
    if (name.empty()) name = extent_of(model_.inputs()[open.input].name, open.axis);
    return {-1, name};
  }
  const Output resolved = Resolve(value);
  const auto found = values_.find(resolved);
  if (found == values_.end() || found->second.forms.empty()) return {-1, extent_of(Get(value, {}), axis)};
  const auto& [form, name] = *found->second.forms.begin();
  return {-1, extent_of(name, form.layout == Layout::kChannelsFirst ? kChannelsFirstAxis[axis] : axis)};
}

std::vector<Dim> Exporter::DimsOf(const Output& value) {
  std::vector<Dim> dims;
  for (int axis = 0; axis < value.shape().rank(); ++axis) dims.push_back(DimOf(value, axis));
  return dims;
}

std::string Exporter::ShapeTensor(const std::vector<Dim>& dims) {
  std::vector<std::string> parts;
  std::vector<int64_t> sizes;
  const auto flush = [&] {
    if (!sizes.empty()) parts.push_back(Ints(sizes));
    sizes.clear();
  };
  for (const Dim& dim : dims) {
    if (dim.name.empty()) {
      sizes.push_back(dim.size);
      continue;
    }
    flush();
    parts.push_back(dim.name);
  }
  flush();
  if (parts.empty()) return Ints({});
  return parts.size() == 1 ? parts[0] : Add("Concat", parts, {{"axis", int64_t{0}}});
}

std::string Exporter::Reshape(const std::string& x, std::vector<Dim> dims) {
  bool has_zero = false, has_inferred = false;
  int64_t named = 0;
  for (const Dim& dim : dims) {
    named += dim.name.empty() ? 0 : 1;
    has_zero = has_zero || dim.size == 0;
    has_inferred = has_inferred || (dim.size == -1 && dim.name.empty());
  }
  // One open extent follows from the others, and the shape is a constant.
  if (named == 1 && !has_zero && !has_inferred) {
    for (Dim& dim : dims) dim.name.clear();
  }
  NodeAttributes attributes;
  if (has_zero) attributes.emplace_back("allowzero", int64_t{1});
  return Add("Reshape", {x, ShapeTensor(dims)}, attributes);
}

std::vector<Dim> Exporter::CarriedBy(const Output& carrier) {
  if (const auto found = carried_.find(carrier); found != carried_.end()) return found->second;
  std::vector<Dim> dims = DimsOf(carrier);
  dims.pop_back();
  return dims;
}

void Exporter::SetShape(const std::string& name, const Output& value, ValueInfoProto& info) const {
  info.set_name(name);
  TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(ElementType(value.dtype()));
  TensorShapeProto& shape = *type.mutable_shape();
  for (int axis = 0; axis < value.shape().rank(); ++axis) {
    TensorShapeProto::Dimension& dim = *shape.add_dim();
    if (value.shape()[axis] != Shape::kUnknown) {
      dim.set_dim_value(value.shape()[axis]);
    } else {
      const std::optional<size_t> extent = extents_.Find(value, axis);
      dim.set_dim_param(extent ? extents_.extents()[*extent].name : absl::StrCat(name, "_", axis));
    }
  }
}

absl::StatusOr<GraphProto> Exporter::Finish() {
  node_ = nullptr;
  rule_ = nullptr;
  std::set<std::string> names;
  for (const NamedOutput& output : model_.outputs()) {
    names.insert(output.name);
    builder_.set_name(output.name);
    builder_.AddTo(output.name, "Identity", {Get(output.value, {})});
  }
  RETURN_IF_ERROR(missing_);
  GraphProto graph = builder_.Take(names);
  for (const auto& [name, value] : model_.inputs()) SetShape(name, value, *graph.add_input());
  for (const auto& [name, value] : model_.outputs()) SetShape(name, value, *graph.add_output());
  return graph;
}

}  // namespace belfry::onnx
