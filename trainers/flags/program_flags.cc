#include "trainers/flags/program_flags.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/data/resume.h"
#include "framework/data/sampler.h"

namespace belfry::trainers {
namespace {

absl::Status TakeFlags(const ProgramFlags& flags, ProgramRun& run) {
  ASSIGN_OR_RETURN(run.card, flags.session.Card());
  ASSIGN_OR_RETURN(run.session, flags.session.OptionsFor(run.devices));
  ASSIGN_OR_RETURN(run.replicate, flags.Replication(run.devices, run.world, run.session));
  if (run.replicate.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(flags.all.Reject({"train_dir", "check_replicas_every"},
                                     "a run with --variable_update=independent, whose towers differ"));
  }
  run.variable_update = flags.variable_update;
  run.sum = flags.averager == "mpi" ? WorldSum::kProcesses : WorldSum::kTowers;
  run.start_timeout = flags.device.StartTimeout();
  run.max_run_time = flags.max_run_time;
  run.stopped_text = [&flags](int signal, int64_t done) { return flags.StoppedText(signal, done); };
  ASSIGN_OR_RETURN(const int64_t batch_size, flags.GlobalBatchSize(run.replicate.towers));
  run.order = {.batch_size = batch_size,
               .towers = run.replicate.towers,
               .first_tower = run.replicate.first_tower,
               .local_towers = static_cast<int>(run.devices.TowerDevices().size()) * run.replicate.micro_batches,
               .seed = flags.seed};
  return absl::OkStatus();
}

// All settings of the run, which checkpoints record.
std::vector<RunSetting> SettingsOf(const TrainingProgram& program, ProgramFlags& flags, const ProgramRun& run) {
  flags.steps = run.training.steps;  // as they are in effect
  flags.batch_size = run.order.batch_size;
  std::vector<RunSetting> settings = program.Settings(run);
  for (RunSetting& setting : flags.all.Settings()) settings.push_back(std::move(setting));
  const auto add = [&](const char* name, const std::vector<std::string>& patterns, bool fixed) {
    settings.push_back({name, patterns.empty() ? "none" : absl::StrJoin(patterns, ","), fixed, /*unrecorded=*/"none"});
  };
  add("--freeze", run.replicate.frozen, /*fixed=*/true);
  add("--trainable", run.replicate.trainable, /*fixed=*/true);
  add("--frozen_until", flags.frozen_until, /*fixed=*/false);
  return settings;
}

}  // namespace

ProgramFlags::ProgramFlags(Flags& flags) : all(flags), device(flags), session(flags, device) {
  AddRun();
  AddReplication();
  AddCheckpoints();
}

absl::StatusOr<int> RunTrainingProgram(TrainingProgram& program, ProgramFlags& flags, World& world) {
  RETURN_IF_ERROR(program.CheckFlags());
  ASSIGN_OR_RETURN(TrainerOptions training, flags.Training(world));
  ASSIGN_OR_RETURN(const DeviceSet devices, flags.session.OpenDevices(world));
  ProgramRun run{.world = world, .devices = devices, .training = std::move(training)};
  RETURN_IF_ERROR(TakeFlags(flags, run));
  RETURN_IF_ERROR(program.Configure(run));
  if (run.card.has_value() && !run.explain) {
    return absl::InvalidArgumentError("--as describes GPUs that need not be there, so nothing can run; add --explain");
  }
  if (!run.explain && world.rank() == 0) {
    ASSIGN_OR_RETURN(run.training.metrics_file, flags.PrepareOutputs());
  }
  RETURN_IF_ERROR(program.OpenData(run));
  const int64_t batch_size = run.order.batch_size, examples = run.train->size();
  if (!run.example.empty()) RETURN_IF_ERROR(flags.CheckBatchFits(batch_size, examples, run.example));
  if (run.evaluate_every_epochs > 0) {
    run.training.evaluate_every =
        run.evaluate_every_epochs * data::BatchesPerEpoch(examples, batch_size, run.order.drop_remainder);
  }
  if (run.test != nullptr) {
    ASSIGN_OR_RETURN(const std::string test_data, data::DataLine(*run.test));
    run.training.tasks.settings.push_back(absl::StrCat("test ", test_data));
  }
  std::optional<io::Checkpoint> checkpoint;
  RETURN_IF_ERROR(flags.FindCheckpoint(SettingsOf(program, flags, run), run.training, checkpoint));
  if (checkpoint.has_value()) RETURN_IF_ERROR(program.Resume(run));
  return RunTraining(program, run);
}

int TrainingMain(int argc, char** argv, absl::string_view usage, ProgramFlags& flags, TrainingProgram& program) {
  return RunInWorld(argc, argv, usage, flags.device,
                    [&](World& world) { return RunTrainingProgram(program, flags, world); });
}

}  // namespace belfry::trainers
