// Reading of JSON objects. Internal.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "framework/io/json_impl.h"
#include "framework/io/utf8.h"

namespace belfry::trainers {

using Json = nlohmann::json;

// The object in `text`; an empty one if that is not an object.
inline Json ParseObject(absl::string_view text) {
  Json json = io::ParseJson(text);
  return json.is_object() ? std::move(json) : Json::object();
}

// The bytes that ObjectText::Add was given; "" if the value is no string.
inline std::string BytesOf(const Json& value) {
  return value.is_string() ? io::UnescapeBytes(value.get_ref<const std::string&>()) : "";
}
// The member of that name; "", or `otherwise`, if there is none, or one of another type.
inline std::string StringIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() ? BytesOf(*found) : "";
}
inline int64_t NumberIn(const Json& object, const char* name, int64_t otherwise = -1) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

}  // namespace belfry::trainers
