// Writing of JSON objects.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace belfry::trainers {

// An object on one line, put together piece by piece: the destructor of an object of the JSON library needs memory, and
// ends the program if there is none.
class ObjectText {
 public:
  // Bytes that are not UTF-8, as in names of files, are escaped: io::EscapeBytes.
  ObjectText& Add(absl::string_view name, absl::string_view value);
  ObjectText& Add(absl::string_view name, int64_t value);
  ObjectText& Add(absl::string_view name, double value);  // null unless it is finite
  ObjectText& Add(absl::string_view name, const std::vector<std::string>& values);
  ObjectText& Add(absl::string_view name, const std::map<std::string, std::string>& values);
  std::string text() const;

 private:
  ObjectText& AddText(absl::string_view name, absl::string_view value);

  std::string text_;  // without the closing brace
};

}  // namespace belfry::trainers
