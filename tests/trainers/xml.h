// Reads the pages that the plots' tests look at.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::trainers {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // directly inside, as it is written
  int parent = -1;   // an index among the elements; -1 for the root

  // The class attribute has this word.
  bool Has(absl::string_view css_class) const;
};

// The elements in the order in which they begin. InvalidArgument, with the place, unless all of them are closed in
// order, each value is quoted and no '<' or '&' stands alone. Knows <!DOCTYPE ...>, CDATA sections and no comments.
absl::StatusOr<std::vector<XmlElement>> ParseXml(absl::string_view text);

}  // namespace belfry::trainers
