#include "framework/runtime/saved_model/model_contents.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "framework/graph/variable.h"
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

// The tensors of a file, each read once: the copies of a model share them. Thread-safe.
class Tensors {
 public:
  explicit Tensors(io::SafetensorsFile file) : file_(std::move(file)) {}

  const io::SafetensorsFile& file() const { return file_; }
  absl::StatusOr<Tensor> Read(const std::string& name) {
    const MutexLock lock(mutex_);
    if (const auto found = read_.find(name); found != read_.end()) return found->second;
    const io::TensorInfo* const info = file_.Find(name);
    if (info == nullptr) return Malformed("is no tensor of the file");
    ASSIGN_OR_RETURN(const Tensor value, file_.Read(*info));
    read_[name] = value;
    return value;
  }

 private:
  const io::SafetensorsFile file_;
  Mutex mutex_;
  std::map<std::string, Tensor> read_;
};

// Adds a model's nodes to a graph.
class ModelReader {
 public:
  // The scope, the model and the tensors are borrowed.
  ModelReader(const Scope& scope, const Json& model, Tensors& tensors, ModelMode mode)
      : scope_(scope), model_(model), tensors_(tensors), mode_(mode) {}

  absl::StatusOr<ModelEnds> Build(absl::Span<const NamedOutput> inputs) {
    if (mode_ == ModelMode::kTrained) RETURN_IF_ERROR(FindVariables());
    RETURN_IF_ERROR(FindGiven(inputs));
    ASSIGN_OR_RETURN(const Json* const nodes, List(model_, "nodes"));
    for (const Json& json : *nodes) {
      if (absl::Status status = AddNode(json); !status.ok()) {
        const Json* const name = Find(json, "name");
        return absl::Status(status.code(),
                            absl::StrCat("node ", nodes_.size(),
                                         name != nullptr && name->is_string() ? absl::StrCat(" ", name->dump()) : "",
                                         " ", status.message()));
      }
    }
    ModelEnds ends;
    ASSIGN_OR_RETURN(ends.inputs, Named("inputs"));
    ASSIGN_OR_RETURN(ends.outputs, Named("outputs"));
    return ends;
  }

 private:
  // Reads which constants were variables.
  absl::Status FindVariables() {
    if (Find(model_, "variables") == nullptr) {
      return absl::UnimplementedError(
          "was written by a version of Belfry that did not yet say which of its constants were variables, so it cannot "
          "be trained; export it again");
    }
    ASSIGN_OR_RETURN(const Json* const list, List(model_, "variables"));
    for (const Json& json : *list) {
      const Json *const node = Find(json, "node"), *const trainable = Find(json, "trainable");
      if (node == nullptr || trainable == nullptr || !trainable->is_boolean()) {
        return Malformed("has an entry of 'variables' without 'node' or 'trainable'");
      }
      ASSIGN_OR_RETURN(const int64_t index, Integer(*node));
      trainable_[index] = trainable->get<bool>();
    }
    return absl::OkStatus();
  }

  // Finds the nodes that `inputs` take the place of. All inputs of the model, or none, must be given.
  absl::Status FindGiven(absl::Span<const NamedOutput> inputs) {
    if (inputs.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Json* const list, List(model_, "inputs"));
    std::set<std::string> names;
    for (const Json& json : *list) {
      ASSIGN_OR_RETURN(std::string name, Text(json, "name"));
      const Json* const reference = Find(json, "value");
      if (reference == nullptr) return Malformed(absl::StrCat("has no 'value' for '", name, "' in its inputs"));
      ASSIGN_OR_RETURN(const std::vector<int64_t> pair, Integers(*reference, /*allow_null=*/false));
      const auto given = std::find_if(inputs.begin(), inputs.end(), [&](const auto& in) { return in.name == name; });
      if (given == inputs.end()) return Malformed(absl::StrCat("has an input '", name, "', which was not given"));
      if (!given->value.valid()) return Malformed(absl::StrCat("was given an invalid output as '", name, "'"));
      if (!pair.empty()) given_[pair[0]] = given->value;
      names.insert(std::move(name));
    }
    for (const NamedOutput& input : inputs) {
      if (!names.contains(input.name)) return Malformed(absl::StrCat("has no input '", input.name, "'"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<NamedOutput>> Named(const char* key) const {
    ASSIGN_OR_RETURN(const Json* const list, List(model_, key));
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

  absl::StatusOr<Output> Reference(const Json& json) const {
    ASSIGN_OR_RETURN(const std::vector<int64_t> pair, Integers(json, /*allow_null=*/false));
    if (pair.size() != 2 || pair[0] < 0 || pair[0] >= static_cast<int64_t>(nodes_.size()) || pair[1] < 0 ||
        pair[1] >= static_cast<int64_t>(nodes_[pair[0]].size())) {
      return Malformed(absl::StrCat("refers to ", json.dump(), ", which is no output of an earlier node"));
    }
    return nodes_[pair[0]][pair[1]];
  }

  absl::Status AddNode(const Json& json) {
    ASSIGN_OR_RETURN(const std::string op_name, Text(json, "op"));
    ASSIGN_OR_RETURN(const std::string name, Text(json, "name"));
    if (name.empty()) return Malformed("has no name");
    const OpDef* const op = scope_.graph().registry().Find(op_name);
    if (op == nullptr) {
      return absl::UnimplementedError(absl::StrCat("has op '", op_name, "', which this program does not register"));
    }
    if (op->kind == OpKind::kVariable || op->kind == OpKind::kAllReduce) {
      return Malformed(absl::StrCat("has op '", op_name, "', which saved models cannot contain"));
    }
    std::vector<Output> values;
    ASSIGN_OR_RETURN(const Json* const inputs, List(json, "inputs"));
    for (const Json& input : *inputs) {
      ASSIGN_OR_RETURN(values.emplace_back(), Reference(input));
    }
    const Json* const attrs = Find(json, "attrs");
    if (attrs == nullptr || !attrs->is_object()) return Malformed("has no 'attrs'");
    Attrs held;
    for (const auto& [key, value] : attrs->items()) {
      absl::StatusOr<AttrValue> attr = Attribute(*op, key, value);
      if (!attr.ok()) {
        return absl::Status(attr.status().code(),
                            absl::StrCat("has attribute '", key, "', which ", attr.status().message()));
      }
      held.Set(key, *std::move(attr));
    }
    const auto index = static_cast<int64_t>(nodes_.size());
    if (const auto given = given_.find(index); given != given_.end()) return Give(*op, held, given->second);
    if (const auto trainable = trainable_.find(index); trainable != trainable_.end()) {
      return AddVariable(*attrs, held, trainable->second);
    }
    nodes_.push_back(scope_.Named(name).AddAll(op_name, std::move(values), std::move(held)));
    return scope_.status();
  }

  // Puts an output in the place of a placeholder.
  absl::Status Give(const OpDef& op, const Attrs& attrs, const Output& value) {
    if (op.kind != OpKind::kPlaceholder) return Malformed("is an input, but no placeholder");
    const AttrValue *const dtype = attrs.Find("dtype"), *const shape = attrs.Find("shape");
    if (dtype == nullptr || shape == nullptr) return Malformed("is a placeholder without dtype or shape");
    const DType wanted = std::get<DType>(*dtype);
    if (value.dtype() != wanted || !value.shape().CompatibleWith(std::get<Shape>(*shape))) {
      return Malformed(absl::StrCat("is an input, ", DTypeName(wanted), " ", std::get<Shape>(*shape).ToString(),
                                    ", but was given ", value.name(), ", ", DTypeName(value.dtype()), " ",
                                    value.shape().ToString()));
    }
    nodes_.push_back({value});
    return absl::OkStatus();
  }

  // Makes a variable of a constant that was one.
  absl::Status AddVariable(const Json& attrs, const Attrs& held, bool trainable) {
    ASSIGN_OR_RETURN(const std::string name, Text(attrs, "value"));
    const AttrValue* const value = held.Find("value");
    if (value == nullptr || !std::holds_alternative<Tensor>(*value)) return Malformed("is no constant");
    const Tensor& tensor = std::get<Tensor>(*value);
    const Initializer initializer = [tensor](const Scope& scope, absl::string_view, DType dtype, const Shape&) {
      return scope.Add(OpRole::kConst, {}, {{"dtype", dtype}, {"value", tensor}});
    };
    const Variable variable =
        GetVariable(scope_, name, tensor.shape(), initializer, {.dtype = tensor.dtype(), .trainable = trainable});
    nodes_.push_back({variable});
    return scope_.status();
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
    // A list or an object may be nested so deeply that its text takes all of the stack.
    const std::string text = json.is_structured() ? json.type_name() : json.dump();
    if (!dtype.ok()) return Malformed(absl::StrCat("is ", text, ", which is no dtype"));
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
    if (!json.is_string()) return Malformed("is no tensor of the file");
    return tensors_.Read(json.get<std::string>());
  }

  const Scope& scope_;
  const Json& model_;
  Tensors& tensors_;
  const ModelMode mode_;
  std::map<int64_t, bool> trainable_;  // by the index of a constant that was a variable
  std::map<int64_t, Output> given_;    // by the index of a placeholder
  std::vector<std::vector<Output>> nodes_;
};

absl::StatusOr<Json> Parse(const io::SafetensorsFile& file) {
  const auto text = file.metadata().find(kSavedModelKey);
  if (text == file.metadata().end()) return Malformed("is no saved model: its metadata have no 'belfry.model'");
  Json model = Json::parse(text->second, nullptr, /*allow_exceptions=*/false);
  const Json* const version = Find(model, "version");
  if (version == nullptr || !version->is_number_integer()) return Malformed("has no version in 'belfry.model'");
  if (*version > kSavedModelVersion) {
    return absl::UnimplementedError(absl::StrCat("is a saved model of version ", version->dump(),
                                                 ", of a later Belfry; this one reads up to ", kSavedModelVersion));
  }
  return model;
}

absl::Status OfFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, " ", status.message()));
}

}  // namespace

struct ModelContents::File {
  File(io::SafetensorsFile file, Json description) : tensors(std::move(file)), model(std::move(description)) {}

  Tensors tensors;
  Json model;
};

ModelContents::ModelContents(std::unique_ptr<File> file) : file_(std::move(file)) {}
ModelContents::ModelContents(ModelContents&&) noexcept = default;
ModelContents& ModelContents::operator=(ModelContents&&) noexcept = default;
ModelContents::~ModelContents() = default;

absl::StatusOr<ModelContents> ModelContents::Open(const std::string& path) {
  ASSIGN_OR_RETURN(io::SafetensorsFile file, io::SafetensorsFile::Map(path));
  absl::StatusOr<Json> model = Parse(file);
  if (!model.ok()) return OfFile(path, model.status());
  return ModelContents(std::make_unique<File>(std::move(file), *std::move(model)));
}

absl::StatusOr<ModelEnds> ModelContents::Build(const Scope& scope, ModelMode mode,
                                               absl::Span<const NamedOutput> inputs) const {
  RETURN_IF_ERROR(scope.status());
  absl::StatusOr<ModelEnds> ends = ModelReader(scope, file_->model, file_->tensors, mode).Build(inputs);
  if (!ends.ok()) return OfFile(file_->tensors.file().path(), ends.status());
  return ends;
}

}  // namespace belfry
