#include "tests/trainers/xml.h"

#include <algorithm>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace belfry::trainers {
namespace {

absl::Status Wrong(absl::string_view what, absl::string_view at) {
  return absl::InvalidArgumentError(absl::StrCat(what, " at: ", at.substr(0, 80)));
}

bool HasLoneAmpersand(const std::string& text) {
  static const std::regex kEntity("&(amp|lt|gt|quot|#39);");
  return std::regex_replace(text, kEntity, "").find('&') != std::string::npos;
}

// `tag`: what stands between '<' and '>', without the '/' of an empty element.
absl::StatusOr<XmlElement> ParseTag(const std::string& tag) {
  static const std::regex kTag(R"re(([a-zA-Z0-9]+)((?:\s+[-a-zA-Z0-9]+="[^"<]*")*)\s*)re");
  static const std::regex kAttribute(R"re(([-a-zA-Z0-9]+)="([^"]*)")re");
  std::smatch match;
  if (!std::regex_match(tag, match, kTag) || HasLoneAmpersand(tag)) return Wrong("no tag", tag);
  XmlElement element{.name = match[1]};
  const std::string attributes = match[2];
  for (std::sregex_iterator i(attributes.begin(), attributes.end(), kAttribute), end; i != end; ++i) {
    if (!element.attributes.emplace((*i)[1], (*i)[2]).second) return Wrong("an attribute twice", tag);
  }
  return element;
}

}  // namespace

bool XmlElement::Has(absl::string_view css_class) const {
  const auto found = attributes.find("class");
  if (found == attributes.end()) return false;
  const std::vector<absl::string_view> words = absl::StrSplit(found->second, ' ');
  return std::find(words.begin(), words.end(), css_class) != words.end();
}

absl::StatusOr<std::vector<XmlElement>> ParseXml(absl::string_view text) {
  std::vector<XmlElement> elements;
  int open = -1;
  if (absl::ConsumePrefix(&text, "<!DOCTYPE html>")) text = absl::StripLeadingAsciiWhitespace(text);
  while (!text.empty()) {
    size_t end = std::min(text.find('<'), text.size());
    std::string inside(text.substr(0, end));
    text.remove_prefix(end);
    if (absl::ConsumePrefix(&text, "<![CDATA[")) {
      end = text.find("]]>");
      if (end == absl::string_view::npos || open < 0) return Wrong("a CDATA section out of place", text);
      text.remove_prefix(end + 3);
      continue;
    }
    if (HasLoneAmpersand(inside)) return Wrong("a lone &", inside);
    if (open >= 0) elements[open].text += inside;
    if (open < 0 && inside.find_first_not_of(" \n") != std::string::npos) return Wrong("text outside", inside);
    if (text.empty()) break;
    end = text.find('>');
    if (end == absl::string_view::npos) return Wrong("a tag without end", text);
    absl::string_view tag = text.substr(1, end - 1);
    if (absl::ConsumePrefix(&tag, "/")) {
      if (open < 0 || elements[open].name != tag) return Wrong("closes what is not open", text);
      open = elements[open].parent;
    } else {
      const bool is_empty = absl::ConsumeSuffix(&tag, "/");
      absl::StatusOr<XmlElement> element = ParseTag(std::string(tag));
      if (!element.ok()) return element.status();
      if (open < 0 && !elements.empty()) return Wrong("a second root", text);
      element->parent = open;
      elements.push_back(*std::move(element));
      if (!is_empty) open = static_cast<int>(elements.size()) - 1;
    }
    text.remove_prefix(end + 1);
  }
  if (open >= 0) return Wrong("not closed", elements[open].name);
  return elements;
}

}  // namespace belfry::trainers
