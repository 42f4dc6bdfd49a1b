#include "framework/runtime/saved_model/saved_model.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/saved_model/format_impl.h"

namespace belfry {
namespace {

using Json = nlohmann::json;

absl::Status Malformed(absl::string_view what) { return absl::InvalidArgumentError(what); }

// A member of an object; null if there is none.
const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

absl::StatusOr<std::string> Text(const Json& object, const char* key) {
  const Json* const text = Find(object, key);
  if (text == nullptr || !text->is_string()) return Malformed(absl::StrCat("has no text '", key, "'"));
  return text->get<std::string>();
}

absl::StatusOr<const Json*> List(const Json& object, const char* key) {
  const Json* const list = Find(object, key);
  if (list == nullptr || !list->is_array()) return Malformed(absl::StrCat("has no list '", key, "'"));
  return list;
}

absl::StatusOr<int64_t> Integer(const Json& json) {
  if (!json.is_number_integer() || (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX)) {
    return Malformed("is no integer");
  }
  return json.get<int64_t>();
}

absl::StatusOr<double> Number(const Json& json) {
  if (json.is_number()) return json.get<double>();
  for (const auto& [text, value] : kNotInJson) {
    if (json == text) return value;
  }
  return Malformed("is no number");
}

absl::StatusOr<std::vector<int64_t>> Integers(const Json& json, bool allow_null) {
  if (!json.is_array()) return Malformed("is no list of integers");
  std::vector<int64_t> numbers;
  for (const Json& element : json) {
    if (allow_null && element.is_null()) {
      numbers.push_back(Shape::kUnknown);
      continue;
    }
    ASSIGN_OR_RETURN(numbers.emplace_back(), Integer(element));
  }
  return numbers;
}

// Reads a model's nodes into a graph.
class ModelReader {
 public:
  ModelReader(const io::SafetensorsFile& file, Graph& graph) : file_(file), graph_(graph) {}

  absl::Status AddNodes(const Json& list) {
    for (const Json& json : list) {
      if (absl::Status status = AddNode(json); !status.ok()) {
        const Json* const name = Find(json, "name");
        return absl::Status(status.code(),
                            absl::StrCat("node ", nodes_.size(),
                                         name != nullptr && name->is_string() ? absl::StrCat(" ", name->dump()) : "",
                                         " ", status.message()));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<NamedOutput>> Named(const Json& model, const char* key) const {
    ASSIGN_OR_RETURN(const Json* const list, List(model, key));
    std::vector<NamedOutput> values;
    for (const Json& json : *list) {
      ASSIGN_OR_RETURN(std::string name, Text(json, "name"));
      const Json* const reference = Find(json, "value");
      if (reference == nullptr) return Malformed(absl::StrCat("has no 'value' for '", name, "' in its ", key));
      ASSIGN_OR_RETURN(const Output value, Reference(*reference));
      values.push_back({std::move(name), value});
    }
    return values;
  }

 private:
  absl::StatusOr<Output> Reference(const Json& json) const {
    ASSIGN_OR_RETURN(const std::vector<int64_t> pair, Integers(json, /*allow_null=*/false));
    if (pair.size() != 2 || pair[0] < 0 || pair[0] >= static_cast<int64_t>(nodes_.size()) || pair[1] < 0 ||
        pair[1] >= static_cast<int64_t>(nodes_[pair[0]]->outputs().size())) {
      return Malformed(absl::StrCat("refers to ", json.dump(), ", which is no output of an earlier node"));
    }
    return nodes_[pair[0]]->output(static_cast<int>(pair[1]));
  }

  absl::Status AddNode(const Json& json) {
    NodeRequest request;
    ASSIGN_OR_RETURN(request.op, Text(json, "op"));
    ASSIGN_OR_RETURN(request.name, Text(json, "name"));
    const OpDef* const op = graph_.registry().Find(request.op);
    if (op == nullptr) {
      return absl::UnimplementedError(absl::StrCat("has op '", request.op, "', which this program does not register"));
    }
    if (op->kind == OpKind::kVariable || op->kind == OpKind::kAllReduce) {
      return Malformed(absl::StrCat("has op '", request.op, "', which saved models cannot contain"));
    }
    ASSIGN_OR_RETURN(const Json* const inputs, List(json, "inputs"));
    for (const Json& input : *inputs) {
      ASSIGN_OR_RETURN(request.inputs.emplace_back(), Reference(input));
    }
    const Json* const attrs = Find(json, "attrs");
    if (attrs == nullptr || !attrs->is_object()) return Malformed("has no 'attrs'");
    for (const auto& [name, value] : attrs->items()) {
      absl::StatusOr<AttrValue> attr = Attribute(*op, name, value);
      if (!attr.ok()) {
        return absl::Status(attr.status().code(),
                            absl::StrCat("has attribute '", name, "', which ", attr.status().message()));
      }
      request.attrs.Set(name, *std::move(attr));
    }
    ASSIGN_OR_RETURN(nodes_.emplace_back(), graph_.AddNode(std::move(request)));
    return absl::OkStatus();
  }

  // The attribute's value, of the type that the op's definition gives.
  absl::StatusOr<AttrValue> Attribute(const OpDef& op, const std::string& name, const Json& json) const {
    for (const TypeVar& variable : op.types) {
      if (variable.name == name) return Decode(json, DType());
    }
    for (const AttrDef& def : op.attrs) {
      if (def.name == name) return std::visit([&](const auto& like) { return Decode(json, like); }, def.value);
    }
    return absl::UnimplementedError(absl::StrCat("op '", op.name, "' does not have"));
  }

  absl::StatusOr<AttrValue> Decode(const Json& json, bool) const {
    if (!json.is_boolean()) return Malformed("is neither true nor false");
    return json.get<bool>();
  }
  absl::StatusOr<AttrValue> Decode(const Json& json, int64_t) const { return Integer(json); }
  absl::StatusOr<AttrValue> Decode(const Json& json, double) const { return Number(json); }
  absl::StatusOr<AttrValue> Decode(const Json& json, const std::string&) const {
    if (!json.is_string()) return Malformed("is no text");
    return json.get<std::string>();
  }
  absl::StatusOr<AttrValue> Decode(const Json& json, DType) const {
    const absl::StatusOr<DType> dtype = ParseDType(json.is_string() ? json.get<std::string>() : "");
    if (!dtype.ok()) return Malformed(absl::StrCat("is ", json.dump(), ", which is no dtype"));
    return *dtype;
  }
  absl::StatusOr<AttrValue> Decode(const Json& json, const Shape&) const {
    if (json.is_null()) return Shape::Invalid();
    ASSIGN_OR_RETURN(const std::vector<int64_t> extents, Integers(json, /*allow_null=*/true));
    return Shape::Make(extents);
  }
  absl::StatusOr<AttrValue> Decode(const Json& json, const std::vector<int64_t>&) const {
    return Integers(json, /*allow_null=*/false);
  }
  absl::StatusOr<AttrValue> Decode(const Json& json, const Tensor&) const {
    const io::TensorInfo* const info = json.is_string() ? file_.Find(json.get<std::string>()) : nullptr;
    if (info == nullptr) return Malformed("is no tensor of the file");
    return file_.Read(*info);
  }

  const io::SafetensorsFile& file_;
  Graph& graph_;
  std::vector<const Node*> nodes_;
};

struct ReadModel {
  std::unique_ptr<Graph> graph;
  std::vector<NamedOutput> inputs, outputs;
};

absl::StatusOr<ReadModel> Read(const io::SafetensorsFile& file, const OpRegistry& registry) {
  const auto text = file.metadata().find(kSavedModelKey);
  if (text == file.metadata().end()) return Malformed("is no saved model: its metadata have no 'belfry.model'");
  const Json model = Json::parse(text->second, nullptr, /*allow_exceptions=*/false);
  const Json* const version = Find(model, "version");
  if (version == nullptr || !version->is_number_integer()) return Malformed("has no version in 'belfry.model'");
  if (*version > kSavedModelVersion) {
    return absl::UnimplementedError(absl::StrCat("is a saved model of version ", version->dump(),
                                                 ", of a later Belfry; this one reads up to ", kSavedModelVersion));
  }
  ReadModel read{std::make_unique<Graph>(registry), {}, {}};
  ModelReader reader(file, *read.graph);
  ASSIGN_OR_RETURN(const Json* const nodes, List(model, "nodes"));
  RETURN_IF_ERROR(reader.AddNodes(*nodes));
  ASSIGN_OR_RETURN(read.inputs, reader.Named(model, "inputs"));
  ASSIGN_OR_RETURN(read.outputs, reader.Named(model, "outputs"));
  return read;
}

}  // namespace

absl::StatusOr<SavedModel> SavedModel::Open(const std::string& path, const OpRegistry& registry,
                                            const DeviceSet& devices, const SessionOptions& options) {
  ASSIGN_OR_RETURN(const io::SafetensorsFile file, io::SafetensorsFile::Map(path));
  absl::StatusOr<ReadModel> read = Read(file, registry);
  if (!read.ok()) return absl::Status(read.status().code(), absl::StrCat(path, " ", read.status().message()));
  SavedModel model;
  model.graph_ = std::move(read->graph);
  model.inputs_ = std::move(read->inputs);
  model.outputs_ = std::move(read->outputs);
  for (const NamedOutput& output : model.outputs_) model.fetches_.push_back(output.value);
  SessionOptions with_weights = options;
  with_weights.fold = Fold::kWeights;
  ASSIGN_OR_RETURN(model.session_, Session::Create(*model.graph_, devices, with_weights));
  return model;
}

absl::Status SavedModel::Check(absl::Span<const TensorSpec> specs) const {
  if (specs.size() != inputs_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("The model takes ", inputs_.size(), " inputs, but ", specs.size(), " were given"));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto& [name, input] = inputs_[i];
    const Shape& shape = specs[i].shape;
    if (!shape.known()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input '", name, "' is ", shape.ToString(), ", of which an extent is not known"));
    }
    if (specs[i].dtype == input.dtype() && input.shape().CompatibleWith(shape)) continue;
    return absl::InvalidArgumentError(absl::StrCat("Input '", name, "' is ", DTypeName(specs[i].dtype), " ",
                                                   shape.ToString(), ", but must be ", DTypeName(input.dtype()), " ",
                                                   input.shape().ToString()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> SavedModel::Run(absl::Span<const Tensor> values) const {
  std::vector<TensorSpec> specs;
  for (const Tensor& value : values) specs.push_back({value.dtype(), value.shape()});
  RETURN_IF_ERROR(Check(specs));
  std::vector<Feed> feeds;
  for (size_t i = 0; i < values.size(); ++i) feeds.push_back({inputs_[i].value, values[i]});
  return session_->Run(feeds, fetches_);
}

absl::StatusOr<std::unique_ptr<PreparedStep>> SavedModel::Prepare(absl::Span<const Shape> shapes) const {
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    specs.push_back({i < inputs_.size() ? inputs_[i].value.dtype() : DType::kFloat32, shapes[i]});
  }
  RETURN_IF_ERROR(Check(specs));
  std::vector<FeedSpec> feeds;
  for (size_t i = 0; i < shapes.size(); ++i) feeds.push_back({inputs_[i].value, shapes[i]});
  return session_->Prepare(feeds, fetches_);
}

}  // namespace belfry
