// Plots the metrics of training runs.
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/io/file.h"
#include "framework/io/utf8.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/model_flags.h"
#include "trainers/plots/plots.h"

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Plots training runs into one HTML page: loss, accuracy, learning rate, throughput and
where the time went, with a table of final and best values. The page is self-contained and needs no network. A run may
be plotted while it is in progress; run the program again to update the page.

  plot_run DIR                            # a run with --train_dir=DIR: its metrics.jsonl
  plot_run --output=both.html DIR1 DIR2   # two runs in the same charts
  plot_run metrics.jsonl                  # a run with --metrics_file=metrics.jsonl
)";

absl::StatusOr<int> Run(const std::vector<std::string>& paths, const std::string& output) {
  if (paths.empty()) {
    return absl::InvalidArgumentError("no runs given: name their directories or metrics files; see --help");
  }
  for (const std::string& path : paths) {
    if (path.empty()) return absl::InvalidArgumentError("an empty name in the place of a run; see --help");
  }
  RETURN_IF_ERROR(CheckOutputFile("output", output, "the page"));
  ASSIGN_OR_RETURN(const std::vector<RunMetrics> runs, ReadRunMetrics(paths));
  RETURN_IF_ERROR(io::WriteFile(output, PlotPage(runs)));
  for (const RunMetrics& run : runs) {
    absl::PrintF("%s: %s, last step %d%s\n", io::Printable(run.name), Counted(run.lines, "line"), run.last_step,
                 run.torn ? "; the last line breaks off and is left out" : "");
  }
  absl::PrintF("Written to %s.\n", output);
  return 0;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  std::vector<std::string> paths;
  std::string output = "run.html";
  flags.TakeArguments(paths, FileUse::kRunDirectory);
  AddOutput(flags, output);
  return RunProgram(argc, argv, kUsage, flags, [&] { return Run(paths, output); });
}
