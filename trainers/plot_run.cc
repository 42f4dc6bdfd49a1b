// Plots the metrics of training runs.
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/io/file.h"
#include "trainers/flags/command_line.h"
#include "trainers/plots/plots.h"

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

// InvalidArgument if the page cannot be written there whatever it holds, or would replace one of `inputs`.
absl::Status CheckOutput(const std::string& output, const std::vector<std::string>& inputs) {
  const std::filesystem::path folder = std::filesystem::path(output).parent_path();
  std::error_code error;
  std::string problem;
  if (output.empty()) {
    problem = " is empty; name the page to write";
  } else if (std::filesystem::is_directory(output, error)) {
    problem = " is a folder; name a file in it";
  } else if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    problem = absl::StrCat(": there is no folder ", folder.string());
  }
  for (const std::string& input : inputs) {
    if (input.empty()) return absl::InvalidArgumentError("an empty name in the place of a run; see --help");
    if (std::filesystem::equivalent(input, output, error)) problem = " is the metrics file of a run; name another";
  }
  return problem.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat("--output=", output, problem));
}

absl::Status Run(const std::vector<std::string>& paths) {
  if (paths.empty()) {
    return absl::InvalidArgumentError("no runs given: name their directories or metrics files; see --help");
  }
  const std::string output = absl::GetFlag(FLAGS_output);
  RETURN_IF_ERROR(CheckOutput(output, paths));
  ASSIGN_OR_RETURN(const std::vector<RunMetrics> runs, ReadRunMetrics(paths));
  RETURN_IF_ERROR(io::WriteFile(output, PlotPage(runs)));
  for (const RunMetrics& run : runs) {
    absl::PrintF("%s: %s, last step %d%s\n", run.name, Counted(run.lines, "line"), run.last_step,
                 run.torn ? "; the last line breaks off and is left out" : "");
  }
  absl::PrintF("Written to %s.\n", output);
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunProgram([&] { return ExitStatus(Run(ParseFlags(argc, argv, kUsage))); });
}
