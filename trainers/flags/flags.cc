#include "trainers/flags/flags.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <type_traits>

#include "absl/algorithm/container.h"
#include "absl/flags/marshalling.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/base/version.h"
#include "framework/io/file.h"

namespace belfry::trainers {
namespace {

constexpr size_t kColumns = 100, kIndent = 6;  // of the help
constexpr size_t kLargestFile = 1 << 20;       // of a flag file

template <class T>
std::string TextOf(const T& value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) return absl::StrCat(value);
  if constexpr (std::is_same_v<T, absl::Duration>) return absl::AbslUnparseFlag(value);
  if constexpr (!std::is_arithmetic_v<T> && !std::is_same_v<T, absl::Duration>) return absl::UnparseFlag(value);
}

// `text` in lines of kColumns, each after kIndent spaces.
std::string Wrapped(absl::string_view text) {
  std::string lines;
  size_t column = kColumns;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (column + 1 + word.size() > kColumns) {
      absl::StrAppend(&lines, lines.empty() ? "" : "\n", std::string(kIndent, ' '), word);
      column = kIndent + word.size();
    } else {
      absl::StrAppend(&lines, " ", word);
      column += 1 + word.size();
    }
  }
  return lines + "\n";
}

// The edit distance of Levenshtein: insertions, deletions and replacements of a character.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string NumberText(double x) {
  return x == std::floor(x) && std::abs(x) < 1e18 ? absl::StrCat(static_cast<int64_t>(x)) : absl::StrCat(x);
}

std::string List(absl::Span<const std::string> choices) {
  return absl::StrCat(absl::StrJoin(choices.subspan(0, choices.size() - 1), ", "), " and ", choices.back());
}

}  // namespace

FlagRule FlagRule::Or(double number) const {
  FlagRule rule = *this;
  rule.also = number;
  return rule;
}
FlagRule FlagRule::Recorded(absl::string_view if_unrecorded) const {
  FlagRule rule = *this;
  rule.recorded = true;
  rule.unrecorded = std::string(if_unrecorded);
  return rule;
}
FlagRule FlagRule::Fixed(absl::string_view if_unrecorded) const {
  FlagRule rule = Recorded(if_unrecorded);
  rule.fixed = true;
  return rule;
}
FlagRule FlagRule::PerTask() const {
  FlagRule rule = *this;
  rule.per_task = true;
  return rule;
}
FlagRule FlagRule::Files(FileUse use) const {
  FlagRule rule = *this;
  rule.files = use;
  return rule;
}

FlagRule Range(double low, double high) { return {.low = low, .high = high}; }
FlagRule Above(double low) { return {.low = low, .above = true}; }
FlagRule Below1() { return {.low = 0, .high = 1, .below = true}; }
FlagRule OneOf(absl::string_view plural, absl::Span<const absl::string_view> choices) {
  return {.plural = std::string(plural), .choices = {choices.begin(), choices.end()}};
}
FlagRule Recorded(absl::string_view unrecorded) { return FlagRule().Recorded(unrecorded); }
FlagRule Fixed(absl::string_view unrecorded) { return FlagRule().Fixed(unrecorded); }
FlagRule PerTask() { return FlagRule().PerTask(); }
FlagRule Reads() { return {.files = FileUse::kReads}; }
FlagRule Writes(absl::string_view if_set) { return {.files = FileUse::kWrites, .written_if = std::string(if_set)}; }

std::string Flags::Row::text() const {
  return std::visit([](const auto* value) { return TextOf(*value); }, value);
}

std::string Flags::Row::Legal() const {
  std::string legal;
  if (rule.below) {
    legal = "at least 0 and below 1";
  } else if (rule.above) {
    legal = absl::StrCat("above ", NumberText(rule.low));
  } else if (rule.low > -FlagRule::kNoLimit) {
    legal = rule.high < FlagRule::kNoLimit ? absl::StrCat(NumberText(rule.low), " to ", NumberText(rule.high))
                                           : absl::StrCat("at least ", NumberText(rule.low));
  }
  return rule.also.has_value() && !legal.empty() ? absl::StrCat(legal, ", or ", NumberText(*rule.also)) : legal;
}

absl::Status Flags::Row::Set(absl::string_view text) {
  std::string error;
  if (!std::visit([&](auto* value) { return absl::ParseFlag(text, value, &error); }, value)) {
    const std::string legal = Legal();
    return absl::InvalidArgumentError(absl::StrCat("--", name, "=", text, " is no value of this flag",
                                                   error.empty() ? "" : absl::StrCat(" (", error, ")"),
                                                   legal.empty() ? "" : absl::StrCat("; it must be ", legal)));
  }
  RETURN_IF_ERROR(Check());
  given = this->text();
  return absl::OkStatus();
}

absl::Status Flags::Row::Check() const {
  if (!rule.choices.empty()) {
    const std::string& chosen = *std::get<std::string*>(value);
    if (chosen == before || absl::c_linear_search(rule.choices, chosen)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, "=", chosen, " is unknown; the ", rule.plural, " are ", List(rule.choices)));
  }
  if (rule.low == -FlagRule::kNoLimit) return absl::OkStatus();
  const std::optional<double> x = std::visit(
      [](const auto* value) -> std::optional<double> {
        using T = std::decay_t<decltype(*value)>;
        if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(*value);
        if constexpr (std::is_same_v<T, std::optional<int>>) return *value;
        return std::nullopt;
      },
      value);
  const bool legal = !x.has_value() || x == rule.also ||
                     (std::isfinite(*x) && (rule.above ? *x > rule.low : *x >= rule.low) &&
                      (rule.below ? *x < rule.high : *x <= rule.high));
  if (legal) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", name, "=", text(), " must be ", Legal()));
}

void Flags::Add(absl::string_view name, FlagValue value, const FlagRule& rule, absl::string_view meaning) {
  BELFRY_CHECK(!Has(name));
  Row& row = rows_.emplace_back(Row{std::string(name), std::string(meaning), section_, value, rule});
  row.without_recipe = row.before = row.given = row.text();
}

void Flags::AddRecipes(absl::Span<const Recipe> recipes, absl::string_view meaning) {
  recipes_ = recipes;
  std::vector<absl::string_view> names;
  for (const Recipe& recipe : recipes) names.push_back(recipe.name);
  Add("recipe", &recipe_, OneOf("recipes", names), meaning);
}

const Flags::Row* Flags::Find(absl::string_view name) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.name == name; });
  return found == rows_.end() ? nullptr : &*found;
}

absl::Status Flags::Unknown(absl::string_view name) const {
  const Row* nearest = nullptr;
  size_t distance = std::min<size_t>(4, 1 + name.size() / 2);
  for (const Row& row : rows_) {
    const size_t edits = Distance(name, row.name);
    if (edits < distance) distance = edits, nearest = &row;
  }
  return absl::InvalidArgumentError(absl::StrCat("Unknown command line flag '", name, "'",
                                                 nearest ? absl::StrCat("; did you mean --", nearest->name, "?") : "",
                                                 nearest ? "" : "; --help lists the flags"));
}

absl::Status Flags::ReadLines(absl::string_view text, absl::string_view where, std::vector<Assignment>& assignments) {
  std::vector<std::string> words;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != '-' || absl::StrContains(line, "flagfile")) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": '", line, "' is no line --name=value"));
    }
    words.emplace_back(line);
  }
  return Read(words, assignments);
}

absl::Status Flags::Read(absl::Span<const std::string> words, std::vector<Assignment>& assignments) {
  std::vector<std::string> may_be_unknown;
  for (const std::string& word : words) {
    absl::string_view names = word;
    if (absl::ConsumePrefix(&names, "--undefok=")) may_be_unknown = absl::StrSplit(names, ',');
  }
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    if (word == "--" || word.size() < 2 || word[0] != '-') {
      const size_t first = word == "--" ? i + 1 : i, last = word == "--" ? words.size() : i + 1;
      if (arguments_ == nullptr && first < last) {
        return absl::InvalidArgumentError(
            absl::StrCat("unexpected argument '", words[first], "'; flags are --name=value, --help lists them"));
      }
      if (arguments_ != nullptr) arguments_->insert(arguments_->end(), &words[first], words.data() + last);
      i = last - 1;
      continue;
    }
    absl::ConsumePrefix(&word, "--") || absl::ConsumePrefix(&word, "-");
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const bool has_value = absl::StrContains(word, '=');
    absl::string_view name = parts.first;
    help_ = help_ || word == "help" || word == "h";
    version_ = version_ || word == "version";
    if (word == "help" || word == "h" || word == "version" || name == "undefok") continue;
    if (name == "flagfile") {
      if (!has_value && i + 1 == words.size()) return absl::InvalidArgumentError("--flagfile needs the name of a file");
      const std::string path = has_value ? std::string(parts.second) : words[++i];
      ASSIGN_OR_RETURN(const std::string lines, io::ReadFile(path, kLargestFile));
      flag_files_.push_back(path);
      RETURN_IF_ERROR(ReadLines(lines, path, assignments));
      continue;
    }
    Row* row = Find(name);
    std::string value(parts.second);
    if (row == nullptr && !has_value && absl::ConsumePrefix(&name, "no")) {
      row = Find(name);
      if (row != nullptr && !std::holds_alternative<bool*>(row->value)) row = nullptr;
      value = "false";
    } else if (row != nullptr && !has_value) {
      if (std::holds_alternative<bool*>(row->value)) {
        value = "true";
      } else if (i + 1 < words.size()) {
        value = words[++i];
      } else {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value: --", name, "=VALUE"));
      }
    }
    if (row != nullptr) {
      assignments.emplace_back(row, std::move(value));
    } else if (!absl::c_linear_search(may_be_unknown, parts.first)) {
      return Unknown(parts.first);
    }
  }
  return absl::OkStatus();
}

absl::Status Flags::ApplyRecipe() {
  for (const Recipe& recipe : recipes_) {
    if (recipe.name != recipe_) continue;
    std::vector<Assignment> assignments;
    RETURN_IF_ERROR(ReadLines(recipe.flags, recipe.name, assignments));
    for (const auto& [row, value] : assignments) {
      RETURN_IF_ERROR(row->Set(value));
      row->before = row->given;
    }
  }
  return absl::OkStatus();
}

absl::Status Flags::Parse(absl::Span<const std::string> command_line, absl::string_view usage, std::string& text) {
  const std::string program = std::filesystem::path(command_line[0]).filename().string();
  std::vector<Assignment> assignments;
  RETURN_IF_ERROR(Read(command_line.subspan(1), assignments));
  for (const auto& [row, value] : assignments) {
    if (row->name == "recipe") RETURN_IF_ERROR(row->Set(value));
  }
  RETURN_IF_ERROR(ApplyRecipe());
  for (const auto& [row, value] : assignments) RETURN_IF_ERROR(row->Set(value));
  if (version_) text = absl::StrCat(program, ", Belfry ", kBuild, "\n");
  if (help_) text = Help(program, usage);
  return text.empty() ? CheckOutputs() : absl::OkStatus();
}

bool Flags::IsSet(absl::string_view name) const {
  const Row* const row = Find(name);
  BELFRY_CHECK(row != nullptr);
  return row->given != row->before && row->given != row->without_recipe;
}

absl::Status Flags::Reject(absl::Span<const absl::string_view> names, absl::string_view context) const {
  for (const absl::string_view name : names) {
    if (!IsSet(name)) continue;
    const Row& row = *Find(name);
    return absl::InvalidArgumentError(absl::StrCat("--", name, "=", row.given, " does not apply to ", context,
                                                   "; remove it, or give its default, --", name, "=", row.before));
  }
  return absl::OkStatus();
}

std::vector<RunSetting> Flags::Settings() const {
  std::vector<RunSetting> settings;
  for (const Row& row : rows_) {
    const FlagRule& rule = row.rule;
    if (rule.recorded) settings.push_back({absl::StrCat("--", row.name), row.text(), rule.fixed, rule.unrecorded});
  }
  return settings;
}

std::vector<std::string> Flags::SharedLines() const {
  std::vector<std::string> lines;
  for (const Row& row : rows_) {
    if (!row.rule.per_task) lines.push_back(absl::StrCat("--", row.name, "=", row.given));
  }
  return lines;
}

std::string Flags::Help(absl::string_view program, absl::string_view usage) const {
  std::string text =
      absl::StrCat(program, ": ", absl::StripTrailingAsciiWhitespace(usage), "\n\n", "Flags, with their defaults:\n");
  absl::string_view section;
  for (const Row& row : rows_) {
    if (row.section != section) absl::StrAppend(&text, "\n", section = row.section, ":\n");
    std::string legal = row.Legal();
    if (!row.rule.choices.empty() && !absl::StrContains(row.meaning, row.rule.choices[0]))
      legal = List(row.rule.choices);
    absl::StrAppend(&text, "  --", row.name, "=", row.before, "\n",
                    Wrapped(legal.empty() ? row.meaning : absl::StrCat(row.meaning, " (", legal, ")")));
  }
  return absl::StrCat(text, "\n  --flagfile=FILE\n", Wrapped("Take flags from FILE, one on a line."));
}

}  // namespace belfry::trainers
