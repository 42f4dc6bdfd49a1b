// Names in the comments of C++ sources.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace belfry::layering {

// Adds the identifiers of a source, those in literals too, without those in comments.
void AddCodeNames(absl::string_view source, std::set<std::string>& names);

struct CommentName {
  size_t line = 0;
  std::string name;
};

// The names in a source's comments that are written like those of types and functions ("CommentName"), and are neither
// among `code_names`, nor a plural of one, nor a status code, nor a known name of others.
std::vector<CommentName> FindUnknownNames(absl::string_view source, const std::set<std::string>& code_names);

}  // namespace belfry::layering
