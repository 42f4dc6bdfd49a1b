#include "trainers/flags/training_flags.h"

#include <limits>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "trainers/flags/common_flags.h"
#include "trainers/loop/stop_signals.h"

ABSL_FLAG(std::string, resume, "auto",
          "auto: go on from the latest checkpoint in --train_dir if there is one. always: it is an error if there is "
          "none. never: it is an error if there is one, since nothing is overwritten.");
ABSL_FLAG(int64_t, checkpoint_every, 1000,
          "Steps between two checkpoints in --train_dir; 0: only with evaluations, after the last step and when "
          "stopped by Ctrl-C or SIGTERM.");
ABSL_FLAG(int, keep_checkpoints, 5, "How many of the latest checkpoints are kept; the best one is kept beside them.");
ABSL_FLAG(int64_t, summary_every, 100,
          "Steps between two sets of summaries (histograms of activations, gradients and variables) in TensorBoard's "
          "event file in --train_dir; 0: none.");
ABSL_FLAG(int64_t, check_replicas_every, 0,
          "Steps between two comparisons of the towers' variables, which must have the same bits; 0: never.");
ABSL_FLAG(int64_t, patience, 0, "End after so many evaluations without a better test accuracy; 0: do not.");
ABSL_FLAG(std::string, trace, "",
          "Steps to trace, such as 100-110: prints where their time went, and writes trace.json into --train_dir for "
          "ui.perfetto.dev or chrome://tracing.");
ABSL_FLAG(bool, explain, false,
          "Compile the training step, print what it costs on which device (memory, operations, transfers, critical "
          "path) and the largest batch that fits, and train nothing.");
ABSL_FLAG(int64_t, memory_limit, 0,
          "MiB that all steps of the run together may need on a device: what needs more is refused before the first "
          "one. 0: what the device has.");

namespace belfry::trainers {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

absl::Status CheckSameModel(const io::Checkpoint& checkpoint, const io::Metadata& model) {
  for (const auto& [key, value] : model) {
    const auto found = checkpoint.metadata.find(key);
    if (found != checkpoint.metadata.end() && found->second == value) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.path, " is of a run with ", key, " ",
                     found == checkpoint.metadata.end() ? "unknown" : absl::StrCat("'", found->second, "'"),
                     ", and this one has '", value, "'; use the same flags, or another --train_dir"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<io::Checkpoint>> FindCheckpoint(const io::Metadata& model) {
  const std::string directory = absl::GetFlag(FLAGS_train_dir), resume = absl::GetFlag(FLAGS_resume);
  if (resume != "auto" && resume != "always" && resume != "never") {
    return absl::InvalidArgumentError(
        absl::StrCat("--resume=", resume, " is not known; known are auto, always and never"));
  }
  if (directory.empty()) {
    if (resume != "always") return std::nullopt;
    return absl::InvalidArgumentError("--resume=always needs --train_dir, where the checkpoint is");
  }
  absl::StatusOr<io::Checkpoint> latest = io::LoadLatestCheckpoint(CheckpointFolder(directory));
  if (absl::IsNotFound(latest.status())) {
    if (resume == "always") return latest.status();
    return std::nullopt;
  }
  RETURN_IF_ERROR(latest.status());
  if (resume == "never") {
    return absl::FailedPreconditionError(absl::StrCat("--resume=never, and there is ", latest->path,
                                                      "; give another --train_dir, or remove what is in this one"));
  }
  RETURN_IF_ERROR(CheckSameModel(*latest, model));
  return std::optional<io::Checkpoint>(*std::move(latest));
}

absl::Status SetTrainerOptions(TrainerOptions& options) {
  options.directory = absl::GetFlag(FLAGS_train_dir);
  options.checkpoint_every = absl::GetFlag(FLAGS_checkpoint_every);
  options.keep_checkpoints = absl::GetFlag(FLAGS_keep_checkpoints);
  options.summary_every = absl::GetFlag(FLAGS_summary_every);
  options.check_replicas_every = absl::GetFlag(FLAGS_check_replicas_every);
  options.patience = absl::GetFlag(FLAGS_patience);
  options.stop = &StopSignals::noted;
  for (const auto& [name, value] :
       {std::pair("checkpoint_every", options.checkpoint_every), std::pair("summary_every", options.summary_every),
        std::pair("check_replicas_every", options.check_replicas_every), std::pair("patience", options.patience)}) {
    RETURN_IF_ERROR(CheckFlag(name, value, 0, kNoLimit));
  }
  RETURN_IF_ERROR(CheckFlag("keep_checkpoints", options.keep_checkpoints, 1, 1'000'000));
  if (options.directory.empty()) {
    RETURN_IF_ERROR(
        RejectFlags({"checkpoint_every", "keep_checkpoints", "summary_every"}, "a run without --train_dir"));
  }
  if (absl::GetFlag(FLAGS_trace).empty()) return absl::OkStatus();
  absl::StatusOr<TraceOptions> trace = ParseTrace(absl::GetFlag(FLAGS_trace));
  if (!trace.ok()) return absl::InvalidArgumentError(absl::StrCat("--trace: ", trace.status().message()));
  options.trace = *std::move(trace);
  if (!options.directory.empty()) options.trace.file = absl::StrCat(options.directory, "/trace.json");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<size_t>> MemoryLimit() {
  const int64_t limit = absl::GetFlag(FLAGS_memory_limit);
  RETURN_IF_ERROR(CheckFlag("memory_limit", limit, 0, int64_t{1} << 40));
  if (limit == 0) return std::nullopt;
  return static_cast<size_t>(limit) << 20;
}

std::string StoppedText(int signal, int64_t steps) {
  const std::string text = absl::StrCat("Stopped by ", SignalName(signal), " after step ", steps);
  const std::string directory = absl::GetFlag(FLAGS_train_dir);
  if (directory.empty()) return absl::StrCat(text, "; nothing is saved, for want of --train_dir.");
  return absl::StrCat(text, ", saved in ", CheckpointFolder(directory), ". The same command goes on from there",
                      absl::GetFlag(FLAGS_resume) == "never" ? ", without --resume=never." : ".");
}

}  // namespace belfry::trainers
