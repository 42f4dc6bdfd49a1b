#include "framework/graph/attr.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace belfry {
namespace {

// TensorFlow shortens a long string to its first and last ten characters.
constexpr size_t kLongString = 80, kEnds = 10;

std::string Quoted(const std::string& text) {
  const std::string shown =
      text.size() < kLongString ? text : absl::StrCat(text.substr(0, kEnds), "...", text.substr(text.size() - kEnds));
  return absl::StrCat("\"", absl::CEscape(shown), "\"");
}

struct Printer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return absl::StrCat(value); }
  std::string operator()(const std::string& value) const { return Quoted(value); }
  std::string operator()(DType value) const { return std::string(TensorFlowName(value)); }
  std::string operator()(const Shape& value) const { return value.ToString(); }
  std::string operator()(const Tensor& value) const { return value.ToString(); }
  std::string operator()(const std::vector<int64_t>& value) const {
    return absl::StrCat("[", absl::StrJoin(value, ", "), "]");
  }
};

}  // namespace

absl::string_view AttrTypeName(const AttrValue& value) {
  constexpr absl::string_view kNames[] = {"bool", "int", "float", "string", "type", "shape", "tensor", "list(int)"};
  static_assert(std::variant_size_v<AttrValue> == std::size(kNames));
  return kNames[value.index()];
}

std::string AttrToString(const AttrValue& value) { return std::visit(Printer(), value); }

Attrs::Attrs() = default;
Attrs::Attrs(const Attrs&) = default;
Attrs::Attrs(Attrs&&) noexcept = default;
Attrs& Attrs::operator=(const Attrs&) = default;
Attrs& Attrs::operator=(Attrs&&) noexcept = default;
Attrs::~Attrs() = default;

Attrs::Attrs(std::initializer_list<std::pair<absl::string_view, AttrValue>> values) {
  values_.reserve(values.size());
  for (const auto& [name, value] : values) Set(name, value);
}

const AttrValue* Attrs::Find(absl::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return &value;
  }
  return nullptr;
}

void Attrs::Set(absl::string_view name, AttrValue value) {
  const auto at = std::lower_bound(values_.begin(), values_.end(), name,
                                   [](const auto& entry, absl::string_view wanted) { return entry.first < wanted; });
  if (at != values_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    values_.emplace(at, std::string(name), std::move(value));
  }
}

}  // namespace belfry
