#include "tests/trainers/xml.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace belfry::trainers {
namespace {

absl::Status Wrong(absl::string_view what, absl::string_view at) {
  return absl::InvalidArgumentError(absl::StrCat(what, " at: ", at.substr(0, 80)));
}

bool HasLoneAmpersand(absl::string_view text) {
  for (size_t at = text.find('&'); at != absl::string_view::npos; at = text.find('&', at + 1)) {
    bool known = false;
    for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      known = known || absl::StartsWith(text.substr(at), entity);
    }
    if (!known) return true;
  }
  return false;
}

// Takes letters, digits and, in the names of attributes, hyphens off the front.
std::string TakeName(absl::string_view& text, bool hyphens) {
  size_t size = 0;
  while (size < text.size() && (absl::ascii_isalnum(text[size]) || (hyphens && text[size] == '-'))) ++size;
  const std::string name(text.substr(0, size));
  text.remove_prefix(size);
  return name;
}

// `tag`: what stands between '<' and '>', without the '/' of an empty element.
absl::StatusOr<XmlElement> ParseTag(const std::string& tag) {
  absl::string_view rest = absl::StripTrailingAsciiWhitespace(tag);
  XmlElement element{.name = TakeName(rest, /*hyphens=*/false)};
  if (element.name.empty() || HasLoneAmpersand(tag)) return Wrong("no tag", tag);
  while (!rest.empty()) {
    const absl::string_view spaced = absl::StripLeadingAsciiWhitespace(rest);
    if (spaced.size() == rest.size()) return Wrong("no tag", tag);
    rest = spaced;
    const std::string name = TakeName(rest, /*hyphens=*/true);
    const size_t end = absl::ConsumePrefix(&rest, "=\"") ? rest.find('"') : absl::string_view::npos;
    if (name.empty() || end == absl::string_view::npos || rest.substr(0, end).find('<') != absl::string_view::npos) {
      return Wrong("no tag", tag);
    }
    if (!element.attributes.emplace(name, rest.substr(0, end)).second) return Wrong("an attribute twice", tag);
    rest.remove_prefix(end + 1);
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
