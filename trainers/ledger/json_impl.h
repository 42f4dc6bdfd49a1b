// Reading of JSON objects. Internal.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"

namespace belfry::trainers {

using Json = nlohmann::json;

// The object in `text`; an empty one if that is not an object.
inline Json ParseObject(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

// The member of that name; `otherwise` if there is none, or one of another type.
inline std::string StringIn(const Json& object, const char* name, absl::string_view otherwise = "") {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string(otherwise);
}
inline int64_t NumberIn(const Json& object, const char* name, int64_t otherwise = -1) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

}  // namespace belfry::trainers
