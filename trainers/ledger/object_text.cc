#include "trainers/ledger/object_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainers/ledger/json_impl.h"

namespace belfry::trainers {
namespace {

std::string Quoted(absl::string_view value) { return Json(io::EscapeBytes(value)).dump(); }

}  // namespace

ObjectText& ObjectText::AddText(absl::string_view name, absl::string_view value) {
  absl::StrAppend(&text_, text_.empty() ? "{" : ",", Quoted(name), ":", value);
  return *this;
}

ObjectText& ObjectText::Add(absl::string_view name, absl::string_view value) { return AddText(name, Quoted(value)); }

ObjectText& ObjectText::Add(absl::string_view name, int64_t value) { return AddText(name, absl::StrCat(value)); }

ObjectText& ObjectText::Add(absl::string_view name, double value) {
  return AddText(name, std::isfinite(value) ? Json(value).dump() : "null");
}

ObjectText& ObjectText::Add(absl::string_view name, const std::vector<std::string>& values) {
  const auto quote = [](std::string* text, const std::string& value) { absl::StrAppend(text, Quoted(value)); };
  return AddText(name, absl::StrCat("[", absl::StrJoin(values, ",", quote), "]"));
}

ObjectText& ObjectText::Add(absl::string_view name, const std::map<std::string, std::string>& values) {
  ObjectText object;
  for (const auto& [key, value] : values) object.Add(key, value);
  return AddText(name, object.text());
}

std::string ObjectText::text() const { return text_.empty() ? "{}" : absl::StrCat(text_, "}"); }

}  // namespace belfry::trainers
