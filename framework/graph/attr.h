// Attributes of an op: values fixed when a node is added (strides, axes, a constant's value).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/base/check.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/base/tensor.h"

namespace belfry {

using AttrValue = std::variant<bool, int64_t, double, std::string, DType, Shape, Tensor, std::vector<int64_t>>;

// "bool", "int", "float", "string", "type", "shape", "tensor", "list(int)".
absl::string_view AttrTypeName(const AttrValue& value);
// The value as TensorFlow's node summaries show it: true, 3, 0.5, "SAME", DT_FLOAT, [3,2], Tensor<type: ...>, [1, 2, 2,
// 1].
std::string AttrToString(const AttrValue& value);

// Attributes sorted by name. A value type. Defined in attr.cc, since every program includes this header.
class Attrs {
 public:
  Attrs();
  Attrs(std::initializer_list<std::pair<absl::string_view, AttrValue>> values);
  Attrs(const Attrs&);
  Attrs(Attrs&&) noexcept;
  Attrs& operator=(const Attrs&);
  Attrs& operator=(Attrs&&) noexcept;
  ~Attrs();

  // The attribute of this name. REQUIRES: it exists and has type T, one of AttrValue's alternatives. Nodes are checked
  // against their OpDef when they are added, so kernels and shape rules need not check again.
  template <class T>
  const T& Get(absl::string_view name) const {
    const AttrValue* value = Find(name);
    BELFRY_CHECK(value != nullptr && std::holds_alternative<T>(*value));
    return std::get<T>(*value);
  }
  int64_t Int(absl::string_view name) const { return Get<int64_t>(name); }
  double Float(absl::string_view name) const { return Get<double>(name); }
  bool Bool(absl::string_view name) const { return Get<bool>(name); }
  const std::string& String(absl::string_view name) const { return Get<std::string>(name); }
  const std::vector<int64_t>& Ints(absl::string_view name) const { return Get<std::vector<int64_t>>(name); }
  DType Type(absl::string_view name) const { return Get<DType>(name); }

  // The attribute of this name; null if there is none.
  const AttrValue* Find(absl::string_view name) const;
  void Set(absl::string_view name, AttrValue value);
  const std::vector<std::pair<std::string, AttrValue>>& values() const { return values_; }

 private:
  std::vector<std::pair<std::string, AttrValue>> values_;
};

}  // namespace belfry
