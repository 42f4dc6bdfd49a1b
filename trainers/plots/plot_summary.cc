#include "trainers/plots/plot_summary.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trainers/plots/plot_svg.h"

namespace belfry::trainers {
namespace {

std::string Header(const std::string& key) {
  switch (KindOf(key)) {
    case MetricKind::kLoss:
    case MetricKind::kAccuracy: return absl::StrCat("<th>", EscapeHtml(key), "</th><th>best</th>");
    case MetricKind::kRate: return absl::StrCat("<th>mean ", EscapeHtml(key), "</th>");
    case MetricKind::kSeconds:
      return absl::StrCat("<th>time: ", EscapeHtml(key.substr(kSecondsPrefix.size())), "</th>");
    default: return absl::StrCat("<th>", EscapeHtml(key), "</th>");
  }
}

bool IsInTable(const std::string& key) { return KindOf(key) != MetricKind::kLearningRate; }

std::string Cell(double value) { return absl::StrFormat("<td>%.5g</td>", value); }

double Seconds(const RunMetrics& run) {
  double seconds = 0;
  for (const auto& [key, curve] : run.curves) {
    if (KindOf(key) == MetricKind::kSeconds) seconds += curve.Total().sum;
  }
  return seconds;
}

// The mean of the values above 0, to the width of a column.
double MeanRate(const Curve& curve) {
  Column total;
  for (const auto& [number, column] : curve.columns()) {
    if (column.count > 0 && column.max > 0) total.Append(column);
  }
  return total.count > 0 ? total.mean() : 0;
}

std::string Cells(const RunMetrics& run, const std::string& key) {
  const MetricKind kind = KindOf(key);
  const bool has_best = kind == MetricKind::kLoss || kind == MetricKind::kAccuracy;
  const auto found = run.curves.find(key);
  const Column total = found == run.curves.end() ? Column() : found->second.Total();
  if (total.count == 0) return has_best ? "<td></td><td></td>" : "<td></td>";
  if (kind == MetricKind::kRate) return Cell(MeanRate(found->second));
  if (kind == MetricKind::kSeconds) return absl::StrFormat("<td>%.1f%%</td>", 100 * total.sum / Seconds(run));
  if (!has_best) return Cell(total.last);
  const bool least = kind == MetricKind::kLoss;
  return absl::StrFormat("%s<td>%.5g <small>at %d</small></td>", Cell(total.last), least ? total.min : total.max,
                         least ? total.min_step : total.max_step);
}

}  // namespace

MetricKind KindOf(absl::string_view key) {
  if (absl::StartsWith(key, kSecondsPrefix)) return MetricKind::kSeconds;
  if (absl::EndsWith(key, "_per_second")) return MetricKind::kRate;
  if (absl::StrContains(key, "learning_rate")) return MetricKind::kLearningRate;
  if (absl::StrContains(key, "accuracy") || absl::StrContains(key, "top_")) return MetricKind::kAccuracy;
  if (absl::EndsWith(key, "loss") || absl::EndsWith(key, "_error")) return MetricKind::kLoss;
  return MetricKind::kOther;
}

std::vector<std::string> AllKeys(const std::vector<RunMetrics>& runs) {
  std::set<std::string> all;
  for (const RunMetrics& run : runs) {
    for (const auto& [key, curve] : run.curves) all.insert(key);
  }
  std::vector<std::string> keys(all.begin(), all.end());
  std::stable_sort(keys.begin(), keys.end(), [](const std::string& a, const std::string& b) {
    return std::pair(KindOf(a), a != "loss") < std::pair(KindOf(b), b != "loss");
  });
  return keys;
}

std::string SummaryTable(const std::vector<RunMetrics>& runs) {
  std::vector<std::string> keys = AllKeys(runs);
  keys.erase(std::stable_partition(keys.begin(), keys.end(), IsInTable), keys.end());
  std::string html = "<div class=\"table\"><table>\n<tr><th>run</th><th>last step</th>";
  for (const std::string& key : keys) absl::StrAppend(&html, Header(key));
  absl::StrAppend(&html, "</tr>\n");
  for (const RunMetrics& run : runs) {
    absl::StrAppend(&html, "<tr><td>", EscapeHtml(run.name), "</td><td>",
                    run.lines == 0 ? "none" : absl::StrCat(run.last_step), "</td>");
    for (const std::string& key : keys) absl::StrAppend(&html, Cells(run, key));
    absl::StrAppend(&html, "</tr>\n");
  }
  return absl::StrCat(html, "</table></div>\n");
}

}  // namespace belfry::trainers
