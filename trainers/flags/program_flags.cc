#include "trainers/flags/program_flags.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/data/resume.h"
#include "framework/data/sampler.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/run_flags.h"
#include "trainers/flags/session_flags.h"
#include "trainers/flags/world_flags.h"

namespace belfry::trainers {
namespace {

absl::Status TakeFlags(ProgramRun& run) {
  ASSIGN_OR_RETURN(run.card, CardFromFlags());
  ASSIGN_OR_RETURN(run.measured, MeasuredTimesFromFlags());
  ASSIGN_OR_RETURN(run.session, SessionOptionsFromFlags(run.devices));
  ASSIGN_OR_RETURN(run.replicate, ReplicateOptionsFromFlags(run.devices, run.world, run.session));
  if (run.replicate.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(RejectFlags({"train_dir", "check_replicas_every"},
                                "a run with --variable_update=independent, whose towers differ"));
  }
  run.variable_update = absl::GetFlag(FLAGS_variable_update);
  run.way = absl::GetFlag(FLAGS_averager) == "mpi" ? ExchangeWay::kRing : ExchangeWay::kSlices;
  run.start_timeout = StartTimeout();
  ASSIGN_OR_RETURN(run.max_run_time, MaxRunTime());
  run.stopped_text = &StoppedText;
  ASSIGN_OR_RETURN(const int64_t batch_size, GlobalBatchSize(run.replicate.towers));
  run.order = {.batch_size = batch_size,
               .towers = run.replicate.towers,
               .first_tower = run.replicate.first_tower,
               .local_towers = static_cast<int>(run.devices.TowerDevices().size()) * run.replicate.series,
               .seed = absl::GetFlag(FLAGS_seed)};
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunTrainingProgram(TrainingProgram& program, World& world) {
  RETURN_IF_ERROR(program.CheckFlags());
  TrainerOptions training;
  RETURN_IF_ERROR(SetTrainerOptions(training, world));
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices(world));
  ProgramRun run{.world = world, .devices = devices, .training = std::move(training)};
  RETURN_IF_ERROR(TakeFlags(run));
  RETURN_IF_ERROR(program.Configure(run));
  if (run.card.has_value() && !run.explain) {
    return absl::InvalidArgumentError("--as describes GPUs that need not be there, so nothing can run; add --explain");
  }
  if (!run.explain && world.rank() == 0) {
    ASSIGN_OR_RETURN(run.training.metrics_file, PrepareOutputs());
  }
  RETURN_IF_ERROR(program.OpenData(run));
  const int64_t batch_size = run.order.batch_size, examples = run.train->size();
  if (!run.example.empty()) RETURN_IF_ERROR(CheckBatchFits(batch_size, examples, run.example));
  if (run.evaluate_every_epochs > 0) {
    run.training.evaluate_every =
        run.evaluate_every_epochs * data::BatchesPerEpoch(examples, batch_size, run.order.drop_remainder);
  }
  std::vector<RunSetting> settings = program.Settings(run);
  const std::string frozen = run.replicate.frozen.empty() ? "none" : absl::StrJoin(run.replicate.frozen, ",");
  settings.push_back({"--freeze", frozen, /*fixed=*/true, /*unrecorded=*/"none"});
  if (run.test != nullptr) {
    ASSIGN_OR_RETURN(const std::string test_data, data::DataLine(*run.test));
    run.training.tasks.settings.push_back(absl::StrCat("test ", test_data));
  }
  std::optional<io::Checkpoint> checkpoint;
  RETURN_IF_ERROR(FindCheckpoint(settings, run.training, checkpoint));
  if (checkpoint.has_value()) RETURN_IF_ERROR(program.Resume(run));
  return RunTraining(program, run);
}

int TrainingMain(int argc, char** argv, absl::string_view usage, TrainingProgram& program) {
  return RunInWorld(argc, argv, usage, [&](World& world) { return RunTrainingProgram(program, world); });
}

absl::Status CheckDType(absl::string_view dtype) {
  return CheckChoice("dtype", dtype, "types", {"float32", "bfloat16", "float16"});
}

}  // namespace belfry::trainers
