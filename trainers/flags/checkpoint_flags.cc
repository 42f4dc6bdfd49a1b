#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "trainers/flags/program_flags.h"
#include "trainers/loop/run_directory.h"
#include "trainers/loop/run_in_world.h"
#include "trainers/loop/stop_signals.h"

namespace belfry::trainers {
namespace {

// In checkpoints' metadata: "setting.batch_size".
std::string KeyOf(const RunSetting& setting) { return absl::StrCat("setting.", absl::StripPrefix(setting.name, "--")); }

// In checkpoints' metadata: the program that wrote them.
constexpr char kProgramKey[] = "program";
constexpr char kNotRecorded[] = "not recorded";

struct Change {
  const RunSetting* setting = nullptr;  // as it is now
  std::string then;
};

std::vector<Change> Compare(const io::Metadata& metadata, absl::Span<const RunSetting> settings) {
  std::vector<Change> changes;
  for (const RunSetting& setting : settings) {
    const auto found = metadata.find(KeyOf(setting));
    const std::string unrecorded = setting.unrecorded.empty() ? kNotRecorded : setting.unrecorded;
    const std::string then = found == metadata.end() ? unrecorded : found->second;
    if (then != setting.value) changes.push_back({&setting, then});
  }
  return changes;
}

// Who wrote a checkpoint that lacks settings of this program.
std::string OtherWriter(const io::Metadata& metadata) {
  const auto program = metadata.find(kProgramKey), model = metadata.find("setting.model");
  if (program == metadata.end()) return "another program, or an older version of this one";
  if (program->second == program_invocation_short_name) return absl::StrCat("another version of ", program->second);
  return absl::StrCat(program->second, model == metadata.end() ? "" : absl::StrCat(" with --model=", model->second),
                      ", not by ", program_invocation_short_name);
}

absl::Status CheckFixed(const io::Checkpoint& checkpoint, absl::Span<const RunSetting> settings) {
  std::vector<std::string> changed, missing;
  for (const auto& [setting, then] : Compare(checkpoint.metadata, settings)) {
    if (!setting->fixed) continue;
    changed.push_back(absl::StrCat(setting->name, " was ", then, " and is ", setting->value));
    if (then == kNotRecorded) missing.push_back(setting->name);
  }
  if (!missing.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.path, " was written by ", OtherWriter(checkpoint.metadata), ": it does not record ",
                     absl::StrJoin(missing, ", "), ". Use another --train_dir, or remove the checkpoints in this one"));
  }
  if (changed.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(checkpoint.path,
                                                    " comes from another run: ", absl::StrJoin(changed, ", "),
                                                    "; use the same values, or another --train_dir"));
}

// A table of the settings that have changed; empty if none has.
std::string ChangedSettings(const io::Metadata& metadata, absl::Span<const RunSetting> settings) {
  const std::vector<Change> changes = Compare(metadata, settings);
  if (changes.empty()) return "";
  size_t name_width = 0, then_width = 4;
  for (const auto& [setting, then] : changes) {
    name_width = std::max(name_width, setting->name.size());
    then_width = std::max(then_width, then.size());
  }
  std::string text = absl::StrFormat("  %-*s  %-*s  now\n", name_width, "setting", then_width, "then");
  for (const auto& [setting, then] : changes) {
    absl::StrAppendFormat(&text, "  %-*s  %-*s  %s\n", name_width, setting->name, then_width, then, setting->value);
  }
  return text +
         "The run goes on with the settings of now: its result will equal no run that has either from the start.";
}

// The checkpoint that --resume asks for. In task 0.
absl::StatusOr<std::optional<io::Checkpoint>> ChooseCheckpoint(const std::string& directory,
                                                               const std::string& resume) {
  if (directory.empty()) {
    if (resume != "always") return std::nullopt;
    return absl::InvalidArgumentError("--resume=always needs --train_dir, which holds the checkpoint");
  }
  ASSIGN_OR_RETURN(std::optional<io::Checkpoint> latest, trainers::FindCheckpoint(directory));
  if (!latest.has_value() && resume == "always") {
    return absl::NotFoundError(absl::StrCat("--resume=always, but there is no checkpoint in ",
                                            CheckpointFolder(directory),
                                            "; begin the run with --resume=auto, or name its --train_dir"));
  }
  if (!latest.has_value() || resume != "never") return latest;
  return absl::FailedPreconditionError(
      absl::StrCat("--resume=never, but there is ", latest->path, "; use another --train_dir, or empty this one"));
}

}  // namespace

void ProgramFlags::AddCheckpoints() {
  all.Section("Checkpoints, summaries and traces");
  all.Add("resume", &resume, OneOf("choices", {"auto", "always", "never"}),
          "auto: resume from the latest checkpoint in --train_dir if there is one. always: fail if there is none. "
          "never: fail if there is one, since nothing is overwritten.");
  all.Add("init_from", &training.resume.init_from, Reads(),
          "Begin with the weights of this safetensors file, folder of checkpoints or --train_dir of another run, as "
          "far as names and shapes agree. A run that resumes has its own.");
  all.Add("checkpoint_every", &training.checkpoint_every, Range(0),
          "Steps between checkpoints in --train_dir; 0: only with evaluations, after the last step, and when stopped "
          "by Ctrl-C or SIGTERM.");
  all.Add("keep_checkpoints", &training.keep_checkpoints, Range(1, 1e6),
          "Number of latest checkpoints to keep; the best one is kept as well.");
  all.Add("summary_every", &training.summary_every, Range(0),
          "Steps between summaries (histograms of activations, gradients and variables) in the TensorBoard event file "
          "in --train_dir; 0: none.");
  all.Add("check_replicas_every", &training.check_replicas_every, Range(0),
          "Steps between checks that the towers' variables have the same bits; 0: never.");
  all.Add("trace", &trace,
          "Steps to trace, such as 100-110: prints where their time went, and writes trace.json to --train_dir, or "
          "else to the current directory, for ui.perfetto.dev or chrome://tracing.");
  all.Add("replay_request", &training.resume.replay, Reads(),
          "For the program audit, which starts this one again to repeat steps of a run: the file that says which.");
}

absl::Status ProgramFlags::FindCheckpoint(absl::Span<const RunSetting> settings, TrainerOptions& options,
                                          std::optional<io::Checkpoint>& checkpoint) const {
  options.metadata[kProgramKey] = program_invocation_short_name;
  for (const RunSetting& setting : settings) options.metadata[KeyOf(setting)] = setting.value;
  if (options.world->rank() == 0) {
    ASSIGN_OR_RETURN(checkpoint, ChooseCheckpoint(options.directory, resume));
    if (checkpoint.has_value()) RETURN_IF_ERROR(CheckFixed(*checkpoint, settings));
  }
  ASSIGN_OR_RETURN(checkpoint, ShareCheckpoint(std::move(checkpoint), *options.world, device.StartTimeout()));
  if (!checkpoint.has_value()) return absl::OkStatus();
  options.resume.checkpoint = &*checkpoint;
  options.resume.note = ChangedSettings(checkpoint->metadata, settings);
  return absl::OkStatus();
}

absl::StatusOr<TrainerOptions> ProgramFlags::Training(World& world) const {
  TrainerOptions options = training;
  options.world = &world;
  options.tasks.timeout = device.StartTimeout();
  options.stop = &StopSignals::noted;
  if (options.directory.empty()) {
    RETURN_IF_ERROR(all.Reject({"checkpoint_every", "keep_checkpoints", "summary_every"}, "a run without --train_dir"));
  }
  if (trace.empty()) return options;
  absl::StatusOr<TraceOptions> steps_to_trace = ParseTrace(trace);
  if (!steps_to_trace.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--trace: ", steps_to_trace.status().message()));
  }
  options.trace = *std::move(steps_to_trace);
  options.trace.file = (std::filesystem::path(options.directory) / "trace.json").string();
  return options;
}

std::string ProgramFlags::StoppedText(int signal, int64_t done) const {
  const std::string text = absl::StrCat("Stopped by ", SignalName(signal), " after step ", done);
  if (training.directory.empty()) return absl::StrCat(text, "; nothing was saved without --train_dir.");
  return absl::StrCat(text, ", saved in ", CheckpointFolder(training.directory),
                      ". The same command resumes from there", resume == "never" ? ", without --resume=never." : ".");
}

}  // namespace belfry::trainers
