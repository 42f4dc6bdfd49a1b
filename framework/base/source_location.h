// Source locations of user code.
#pragma once

#include <string>

namespace belfry {

// A file and a line. Stands in for std::source_location, which clang 14 lacks. As a default argument, `SourceLocation
// where = SourceLocation::Current()`, it is the location of the caller.
struct SourceLocation {
  const char* file = "";  // static storage
  int line = 0;           // 0: unknown

  static constexpr SourceLocation Current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool known() const { return line > 0 && file != nullptr; }
  std::string ToString() const { return std::string(file == nullptr ? "" : file) + ":" + std::to_string(line); }
  // For the end of a message: " (model.cc:17)"; empty if it is unknown.
  std::string Suffix() const { return known() ? " (" + ToString() + ")" : ""; }
};

}  // namespace belfry
