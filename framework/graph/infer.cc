#include "framework/graph/infer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/check.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

const TypeVar* FindTypeVar(const OpDef& op, absl::string_view name) {
  for (const TypeVar& type : op.types) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

absl::Status CheckInputCount(const OpDef& op, size_t count) {
  const bool list = !op.inputs.empty() && op.inputs.back().list;
  const size_t fixed = op.inputs.size() - (list ? 1 : 0);
  if (count == fixed || (list && count >= fixed)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("needs ", list ? "at least " : "", fixed, " inputs, but was given ", count));
}

absl::Status Bind(const OpDef& op, absl::string_view type, DType dtype, absl::string_view what, Attrs& attrs) {
  const TypeVar* variable = FindTypeVar(op, type);
  if (variable == nullptr) {
    ASSIGN_OR_RETURN(const DType fixed, ParseDType(type));
    if (fixed == dtype) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(what, " must be ", type, ", but is ", DTypeName(dtype)));
  }
  if (const AttrValue* bound = attrs.Find(type)) {
    const DType* other = std::get_if<DType>(bound);
    if (other == nullptr) return absl::InvalidArgumentError(absl::StrCat("attribute '", type, "' must be a type"));
    if (*other == dtype) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(what, " is ", DTypeName(dtype), ", but ", type, " is already ",
                                                   DTypeName(*other), "; cast one of them"));
  }
  attrs.Set(type, dtype);
  return absl::OkStatus();
}

absl::Status CheckTypeVars(const OpDef& op, const Attrs& attrs) {
  for (const TypeVar& type : op.types) {
    const AttrValue* bound = attrs.Find(type.name);
    const bool of_list = !op.inputs.empty() && op.inputs.back().list && op.inputs.back().type == type.name;
    if (bound == nullptr && of_list) {
      return absl::InvalidArgumentError(
          absl::StrCat("needs at least one tensor for the input '", op.inputs.back().name, "'"));
    }
    if (bound == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("attribute '", type.name, "' (a dtype) is missing"));
    }
    const DType dtype = std::get<DType>(*bound);
    if (std::find(type.allowed.begin(), type.allowed.end(), dtype) == type.allowed.end()) {
      std::vector<std::string> where;
      for (const ArgDef& input : op.inputs) {
        if (input.type == type.name) where.push_back(absl::StrCat("'", input.name, "'"));
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "does not support ", DTypeName(dtype), " for ", where.empty() ? type.name : absl::StrJoin(where, " and "),
          ", only ", absl::StrJoin(type.allowed, ", ", [](std::string* out, DType allowed) {
            absl::StrAppend(out, DTypeName(allowed));
          })));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Attrs> CompleteAttrs(const OpDef& op, absl::Span<const DType> inputs, const Attrs& given) {
  RETURN_IF_ERROR(CheckInputCount(op, inputs.size()));
  Attrs attrs;
  for (const auto& [name, value] : given.values()) {
    const auto declared =
        std::find_if(op.attrs.begin(), op.attrs.end(), [&name = name](const AttrDef& a) { return a.name == name; });
    if (declared == op.attrs.end() && FindTypeVar(op, name) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("has no attribute '", name, "'"));
    }
    const AttrValue exemplar = declared == op.attrs.end() ? AttrValue(DType()) : declared->value;
    if (exemplar.index() != value.index()) {
      return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' must be of type ", AttrTypeName(exemplar),
                                                     ", but is ", AttrTypeName(value)));
    }
    if (const DType* dtype = std::get_if<DType>(&value); dtype != nullptr && *dtype > DType::kBool) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute '", name, "' is no dtype, but the number ", static_cast<int>(*dtype)));
    }
    if (const Shape* shape = std::get_if<Shape>(&value); shape != nullptr && !shape->valid()) {
      return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' has a negative extent"));
    }
    attrs.Set(name, value);
  }
  for (const AttrDef& attr : op.attrs) {
    if (attrs.Find(attr.name) != nullptr) continue;
    if (attr.required) return absl::InvalidArgumentError(absl::StrCat("attribute '", attr.name, "' is missing"));
    attrs.Set(attr.name, attr.value);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgDef& arg = op.input_arg(static_cast<int>(i));
    RETURN_IF_ERROR(Bind(op, arg.type, inputs[i], absl::StrCat("input ", i, " ('", arg.name, "')"), attrs));
  }
  RETURN_IF_ERROR(CheckTypeVars(op, attrs));
  return attrs;
}

absl::StatusOr<std::vector<TensorSpec>> InferOutputs(const OpDef& op, const Attrs& attrs,
                                                     absl::Span<const Shape> shapes, absl::Span<const DType> dtypes) {
  std::vector<TensorSpec> outputs;
  if (op.shape == nullptr) return outputs;
  ASSIGN_OR_RETURN(const std::vector<Shape> inferred, op.shape({attrs, shapes, dtypes}));
  for (const Shape& shape : inferred) {
    const std::string& type = op.output_arg(static_cast<int>(outputs.size())).type;
    const AttrValue* bound = attrs.Find(type);
    DType dtype;
    if (bound != nullptr) {
      dtype = std::get<DType>(*bound);
    } else {
      ASSIGN_OR_RETURN(dtype, ParseDType(type));
    }
    RETURN_IF_ERROR(Shape::Make(shape.dims()).status());
    outputs.push_back({dtype, shape});
  }
  return outputs;
}

DType KernelDType(const OpDef& op, const Attrs& attrs) {
  BELFRY_CHECK(!op.types.empty());
  return attrs.Type(op.types.front().name);
}

int64_t ViewBegin(const OpDef& op, const Attrs& attrs) {
  return op.kind == OpKind::kView && attrs.Find("begin") != nullptr ? attrs.Int("begin") : 0;
}

}  // namespace belfry
