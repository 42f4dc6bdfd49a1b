// Lengths of functions and numbers of data members, read from sources as clang-format lays them out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace belfry::layering {

struct Size {
  size_t line = 0;   // the first one of the definition, from 1
  std::string text;  // that line
  size_t size = 0;   // lines from that one to the brace that ends it, or data members
  bool is_class = false;
};

// The functions with more than `max_lines` lines, and the classes and structs with more than `max_members` members.
std::vector<Size> FindLarge(absl::string_view source, size_t max_lines, size_t max_members);

}  // namespace belfry::layering
