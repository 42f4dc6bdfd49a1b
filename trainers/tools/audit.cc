// Checks what training runs have recorded, and finds where two of them differ.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/io/utf8.h"
#include "trainers/audit/check.h"
#include "trainers/audit/compare.h"
#include "trainers/audit/replayer.h"
#include "trainers/audit/run_record.h"
#include "trainers/flags/command_line.h"
#include "trainers/loop/stop_signals.h"

namespace belfry::trainers {
namespace {

constexpr char kUsage[] =
    R"(Checks what training runs have recorded in their --train_dir, and finds where two of them differ.

  audit RUN                    # the chain of records, checkpoints, logs and files of data
  audit RUN --replay=250       # also repeats steps around 250 from the checkpoint before, and compares the bits
  audit RUN --replay=250 -- --devices=cpu:1 --towers=2 --threads_per_device=4
                               # on other devices: flags after -- go to the program that trained. Name the towers and
                               # threads per device of RUN: others do not promise the same bits
  audit RUN_A RUN_B            # the first step in which two runs differ, and the first op in it

A replay starts the recorded program with the recorded flags, in a temporary directory. The exit status is 0 if nothing
differs, 2 if something is damaged or differs, and 1 after an error.
)";

constexpr int kDiffers = 2;

// Checks a run, which may go on meanwhile: what is ahead of its record, or behind it, is looked at again with a new
// one.
absl::StatusOr<CheckedRun> Check(const std::string& directory, RunRecord& run) {
  constexpr int kTries = 5;
  for (int i = 1;; ++i) {
    ASSIGN_OR_RETURN(run, ReadRun(directory));
    CheckedRun checked = CheckRun(run);
    if (checked.problems.empty() || i == kTries) return checked;
    ASSIGN_OR_RETURN(const RunRecord now, ReadRun(directory));
    if (now.records == run.records) return checked;
  }
}

// Prints what the check found. Returns whether all is as it was recorded.
bool PrintCheck(const RunRecord& run, const CheckedRun& checked) {
  absl::PrintF("%s: %s.\n", io::Printable(run.directory), checked.summary);
  for (const std::string& note : checked.notes) absl::PrintF("  Note: %s.\n", io::Printable(note));
  for (const std::string& problem : checked.problems) absl::PrintF("  DAMAGED: %s.\n", io::Printable(problem));
  if (checked.problems.empty()) absl::PrintF("  All are as they were recorded.\n");
  return checked.problems.empty();
}

absl::StatusOr<int> Audit(const std::vector<std::string>& arguments, int64_t step) {
  std::vector<std::string> directories, flags;
  for (const std::string& argument : arguments) {
    (absl::StartsWith(argument, "-") ? flags : directories).push_back(argument);
  }
  if (directories.empty() || directories.size() > 2) {
    return absl::InvalidArgumentError("name the --train_dir of one run or of two; see --help");
  }
  if (directories.size() == 2 && step >= 0) {
    return absl::InvalidArgumentError("--replay repeats steps of one run, but two are named");
  }
  if (directories.size() == 1 && step < 0 && !flags.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the flags after -- (", absl::StrJoin(flags, " "),
                                                   ") are for a replay: add --replay=STEP, or leave them out"));
  }
  std::vector<RunRecord> runs;
  bool intact = true;
  for (const std::string& directory : directories) {
    ASSIGN_OR_RETURN(const CheckedRun checked, Check(directory, runs.emplace_back()));
    intact = PrintCheck(runs.back(), checked) && intact;
  }
  if (directories.size() == 1 && step < 0) return intact ? 0 : kDiffers;
  Replayer replayer(flags);
  const absl::StatusOr<Comparison> comparison =
      directories.size() == 1 ? ReplayAround(runs[0], step, replayer) : CompareRuns(runs[0], runs[1], replayer);
  if (absl::IsCancelled(comparison.status())) return 128 + StopSignals::noted();
  RETURN_IF_ERROR(comparison.status());
  absl::PrintF("%s", io::Printable(comparison->text));
  if (replayer.runs() > 0) absl::PrintF("Replays: %d.\n", replayer.runs());
  return comparison->same && intact ? 0 : kDiffers;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  std::vector<std::string> arguments;
  int64_t step = -1;
  flags.TakeArguments(arguments);
  flags.Add("replay", &step, Range(0).Or(-1),
            "Repeat the steps between the checkpoints before and after this step, which counts from 0 as in "
            "metrics.jsonl, and compare data and variables bit by bit; -1: no replay.");
  return RunProgram(argc, argv, kUsage, flags, [&] { return Audit(arguments, step); });
}
