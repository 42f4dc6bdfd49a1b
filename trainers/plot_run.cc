// Plots the metrics of training runs.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "trainers/flags/command_line.h"
#include "trainers/plots/plot_page.h"
#include "trainers/plots/run_metrics.h"

ABSL_FLAG(std::string, output, "run.html", "The file to write.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Plots training runs into one HTML page: loss, accuracy, learning rate, throughput and
where the time went, with a table of final and best values. The page is self-contained and needs no network. A run may
be plotted while it is in progress; run the program again to update the page.

  plot_run DIR                            # a run with --train_dir=DIR: its metrics.jsonl
  plot_run --output=both.html DIR1 DIR2   # two runs in the same charts
  plot_run metrics.jsonl                  # a run with --metrics_file=metrics.jsonl
)";

absl::Status Run(const std::vector<std::string>& paths) {
  if (paths.empty()) {
    return absl::InvalidArgumentError("no runs given: name their directories or metrics files; see --help");
  }
  std::vector<RunMetrics> runs;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(runs.emplace_back(), ReadRunMetrics(path));
  }
  // Runs of the same name are called by their paths.
  std::map<std::string, int> uses;
  for (const RunMetrics& run : runs) ++uses[run.name];
  for (size_t i = 0; i < runs.size(); ++i) {
    if (uses[runs[i].name] > 1) runs[i].name = paths[i];
  }
  const std::string output = absl::GetFlag(FLAGS_output);
  RETURN_IF_ERROR(io::WriteFile(output, PlotPage(runs)));
  for (const RunMetrics& run : runs) {
    std::printf("%s: %lld lines, last step %lld\n", run.name.c_str(), static_cast<long long>(run.lines),
                static_cast<long long>(run.last_step));
  }
  std::printf("Written to %s.\n", output.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return ExitStatus(Run(ParseFlags(argc, argv, kUsage)));
}
