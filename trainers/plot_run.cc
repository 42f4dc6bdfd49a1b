// Plots the metrics of training runs.
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "trainers/flags/command_line.h"
#include "trainers/plots/plot_html.h"
#include "trainers/plots/run_metrics.h"

ABSL_FLAG(std::string, output, "run.html", "The page to write.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Plots training runs into one HTML page: loss, accuracy, learning rate, throughput and
where the time went, with a table of final and best values. The page needs no network, and may be opened while a run goes
on; run the program again for what has come since.

  plot_run DIR                            # a run with --train_dir=DIR: its metrics.jsonl
  plot_run --output=both.html DIR1 DIR2   # two runs, one over the other
  plot_run metrics.jsonl                  # a run with --metrics_file=metrics.jsonl
)";

// Runs in directories of one name are called by their paths.
void MakeNamesDiffer(const std::vector<std::string>& paths, std::vector<RunMetrics>& runs) {
  std::set<std::string> seen, twice;
  for (const RunMetrics& run : runs) {
    if (!seen.insert(run.name).second) twice.insert(run.name);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    if (twice.contains(runs[i].name)) runs[i].name = paths[i];
  }
}

absl::Status Run(const std::vector<std::string>& paths) {
  if (paths.empty())
    return absl::InvalidArgumentError("say which runs to plot: directories or files; --help tells more");
  std::vector<RunMetrics> runs;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(runs.emplace_back(), ReadRunMetrics(path));
  }
  MakeNamesDiffer(paths, runs);
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
