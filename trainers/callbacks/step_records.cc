#include "trainers/callbacks/step_records.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "spdlog/fmt/fmt.h"

namespace belfry::trainers {
namespace {

constexpr char kUnloggedKey[] = "trainer.unlogged", kUnevaluatedKey[] = "trainer.unevaluated";
constexpr char kEvaluationKey[] = "trainer.evaluation";

// "0.25 loss\n0.1 learning_rate", which needs no parser that may run out of memory.
std::string ToText(const Figures& figures) {
  std::string text;
  for (const auto& [name, value] : figures) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", fmt::format("{:.17g}", value), " ", absl::CEscape(name));
  }
  return text;
}

Figures FromText(absl::string_view text) {
  Figures figures;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    std::string name;
    double value = 0;
    if (absl::SimpleAtod(parts.first, &value) && absl::CUnescape(parts.second, &name)) {
      figures.emplace_back(std::move(name), value);
    }
  }
  return figures;
}

}  // namespace

void StepRecords::Store(io::Metadata& metadata) const {
  for (const char* const key : {kUnloggedKey, kUnevaluatedKey, kEvaluationKey}) metadata.erase(key);
  if (unlogged.has_value()) metadata[kUnloggedKey] = ToText(*unlogged);
  if (unevaluated) metadata[kUnevaluatedKey] = "true";
  if (!evaluation.empty()) metadata[kEvaluationKey] = ToText(evaluation);
}

StepRecords StepRecords::Load(const io::Metadata& metadata) {
  StepRecords records;
  const auto unlogged = metadata.find(kUnloggedKey), evaluation = metadata.find(kEvaluationKey);
  if (unlogged != metadata.end()) records.unlogged = FromText(unlogged->second);
  records.unevaluated = metadata.contains(kUnevaluatedKey);
  if (evaluation != metadata.end()) records.evaluation = FromText(evaluation->second);
  return records;
}

}  // namespace belfry::trainers
