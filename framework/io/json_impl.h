// Reading of JSON that others wrote. Internal.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"

namespace belfry::io {

// The value in `text`; a discarded one if that is not JSON, or nests more than 100 objects and arrays: the library
// copies, compares and prints values by recursion, which ends a program where the stack does.
inline nlohmann::json ParseJson(absl::string_view text) {
  constexpr int kMaxDepth = 100;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) {
      if (c == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return nlohmann::json(nlohmann::json::value_t::discarded);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

}  // namespace belfry::io
