#include "trainers/program/training_program.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/cores.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/data/resume.h"
#include "framework/data/sampler.h"
#include "framework/io/utf8.h"
#include "models/towers/summaries.h"
#include "ops/builtin_ops.h"
#include "trainers/callbacks/metrics.h"
#include "trainers/loop/learning_rate_finder.h"
#include "trainers/loop/stop_signals.h"
#include "trainers/loop/warm_start.h"
#include "trainers/program/explain.h"

namespace belfry::trainers {
namespace {

// The objects made of a program.
struct Made {
  Graph graph{BuiltinOps()};
  std::unique_ptr<data::Prefetcher> input;
  models::TrainStep step;
  std::unique_ptr<Session> session;
};

absl::Time StartDeadline(const ProgramRun& run) { return SteadyNow() + run.start_timeout; }

absl::Status AddTrainStep(TrainingProgram& program, ProgramRun& run, Made& made) {
  ASSIGN_OR_RETURN(const std::unique_ptr<optim::Optimizer> optimizer, program.MakeOptimizer(run));
  const auto loss = [&](const Scope& tower, const models::Batch& batch) { return program.Loss(tower, batch); };
  ASSIGN_OR_RETURN(const size_t bucket_bytes, BucketBytes(run.world, run.devices, StartDeadline(run)));
  if (run.replicate.bucket_bytes == 0) run.replicate.bucket_bytes = bucket_bytes;
  made.graph.set_seed(run.order.seed);
  made.step = models::ReplicateTowers(Scope(made.graph), run.devices, *made.input, loss, *optimizer, run.replicate);
  RETURN_IF_ERROR(made.graph.status());
  if (!run.training.directory.empty() && run.training.summary_every > 0) {
    run.training.summaries = models::AddTrainSummaries(Scope(made.graph), made.step);
  }
  return absl::OkStatus();
}

// The fields of batches for evaluation, to which MixUp adds none, and whose images workers make.
std::vector<data::Field> FieldsToEvaluate(const data::Prefetcher& input) {
  const absl::Span<const data::Field> of_data = input.fields().subspan(0, input.dataset().fields().size());
  std::vector<data::Field> fields(of_data.begin(), of_data.end());
  for (data::Field& field : fields) {
    if (field.in_step != nullptr) field = {.name = field.name, .shape = Shape(field.in_step->shape)};
  }
  return fields;
}

absl::StatusOr<std::unique_ptr<Made>> Make(TrainingProgram& program, ProgramRun& run) {
  auto made = std::make_unique<Made>();
  if (run.training.resume.checkpoint != nullptr) {
    ASSIGN_OR_RETURN(run.order.start,
                     data::TakePosition(run.training.resume.checkpoint->metadata, run.order, run.train->size()));
  }
  ASSIGN_OR_RETURN(made->input, data::Prefetcher::Create(*run.train, run.order));
  RETURN_IF_ERROR(AddTrainStep(program, run, *made));
  const models::TrainStep& step = made->step;
  Scope of_tower = Scope(made->graph)
                       .Device(run.devices.device(step.towers[0].device).name())
                       .Replica(step.towers[0].scope.replica())
                       .ReuseVariables(Reuse::kAlways);
  if (run.replicate.moving_average > 0) of_tower = step.Averaged(of_tower);
  if (run.test != nullptr) RETURN_IF_ERROR(program.AddEvaluation(run, of_tower, FieldsToEvaluate(*made->input)));
  ASSIGN_OR_RETURN(made->session, Session::Create(made->graph, run.devices, run.session));
  return made;
}

absl::Status Explain(const ProgramRun& run, const Made& made, const PlannedSteps& planned) {
  const int64_t batch_size = run.order.batch_size;
  ASSIGN_OR_RETURN(const std::string text, ExplainRun(*made.session, planned, batch_size, run.order.towers,
                                                      run.train->size(), run.memory_limit));
  const bool prints = run.world.rank() == 0;
  if (prints) std::printf("%s", text.c_str());
  if (run.card.has_value()) {
    ASSIGN_OR_RETURN(const std::string predicted,
                     ExplainOnCard(*made.session, TrainingStep(made.step, batch_size), *run.card, run.session));
    if (prints) std::printf("\n%s", predicted.c_str());
  }
  if (run.world.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string averages,
                   ExplainAverages(run.world, *made.session, TrainingStep(made.step, batch_size), run.sum));
  if (prints) std::printf("\n%s", averages.c_str());
  return absl::OkStatus();
}

// The devices of this process's towers, one a line.
std::string DeviceLines(const DeviceSet& devices, const models::TrainStep& step) {
  std::string text;
  for (const models::TrainTower& tower : step.towers) {
    const Device& device = devices.device(tower.device);
    absl::StrAppend(&text, "          ", device.name().ToLocalString(), ": ", device.description(), "\n");
  }
  return text;
}

// "Towers:   2, variables replicated, global batch 128", the processes if there are several, and the device of each
// tower. All processes must call it; each gets the same text.
absl::StatusOr<std::string> TowerLines(const ProgramRun& run, const models::TrainStep& step) {
  const World& world = run.world;
  ASSIGN_OR_RETURN(const std::vector<std::string> device_lines,
                   run.world.AllGather(DeviceLines(run.devices, step), StartDeadline(run)));
  std::string text = absl::StrCat(
      "Towers:   ", step.towers_in_all, ", variables ", run.variable_update, ", global batch ", run.order.batch_size,
      step.micro_batches > 1 ? absl::StrCat(", ", step.micro_batches, " micro-batches on each device") : "", "\n");
  if (world.size() > 1) {
    absl::StrAppend(&text, "World:    ", world.size(), " processes, connected by ", world.library(), "\n");
  }
  for (int task = 0; task < world.size(); ++task) {
    if (world.size() > 1) absl::StrAppend(&text, "          ", Describe(task, world.processes()[task]), "\n");
    absl::StrAppend(&text, device_lines[task]);
  }
  return text;
}

absl::Status PrintHeader(const TrainingProgram& program, const ProgramRun& run, const Made& made) {
  const std::string header = program.Header(run, made.step);
  if (header.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string towers, TowerLines(run, made.step));
  if (run.training.quiet || run.world.rank() != 0) return absl::OkStatus();
  std::printf("%s%s", io::Printable(header).c_str(), towers.c_str());
  return absl::OkStatus();
}

// Prints what FindLearningRate finds, and writes it to the run's directory.
absl::Status SearchLearningRate(const ProgramRun& run, Made& made) {
  const TrainerOptions& training = run.training;
  if (training.resume.checkpoint != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("--find_learning_rate begins where a run does, but there is ",
                                                      training.resume.checkpoint->path, "; use another --train_dir"));
  }
  if (!training.resume.init_from.empty()) {
    RETURN_IF_ERROR(made.session->RunTarget(made.step.initialize));
    RETURN_IF_ERROR(WarmStart(*made.session, training.resume.init_from).status());
  }
  ASSIGN_OR_RETURN(const FoundLearningRate found, FindLearningRate(*made.session, made.step, *made.input));
  if (run.world.rank() != 0) return absl::OkStatus();
  std::printf("%s", LearningRateTable(found).c_str());
  std::error_code ignored;  // the file that PrepareOutputs made gets no lines, which plot_run would look for
  if (std::filesystem::is_empty(training.metrics_file, ignored))
    std::filesystem::remove(training.metrics_file, ignored);
  if (training.directory.empty()) return absl::OkStatus();
  const std::string path = (std::filesystem::path(training.directory) / "learning_rates.jsonl").string();
  ASSIGN_OR_RETURN(MetricsWriter writer, MetricsWriter::Open(path, RunStart{}));
  for (size_t i = 0; i < found.tried.size(); ++i) {
    const TriedRate& tried = found.tried[i];
    RETURN_IF_ERROR(writer.Write({{"step", static_cast<double>(i)},
                                  {"learning_rate", tried.rate},
                                  {"loss", tried.loss},
                                  {"average_loss", tried.smoothed}}));
  }
  std::printf("Written to %s, which plot_run draws.\n", path.c_str());
  return absl::OkStatus();
}

// Before the training, which would otherwise be lost.
absl::Status CheckExport(const TrainingProgram& program, const ProgramRun& run) {
  const std::string& file = run.export_file;
  if (file.empty() || run.world.rank() != 0) return absl::OkStatus();
  if (!program.Exported().has_value()) {
    return absl::InvalidArgumentError("--export: this run has no model in evaluation mode to save");
  }
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored) ||
      !(folder.empty() || std::filesystem::is_directory(folder, ignored))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--export=", file, " must be a file, in a folder that is there; make ", folder.string(), " first"));
  }
  return absl::OkStatus();
}

absl::Status Export(const TrainingProgram& program, const ProgramRun& run, Session& session) {
  if (run.export_file.empty()) return absl::OkStatus();
  const ExportedModel model = *program.Exported();
  RETURN_IF_ERROR(SaveModel(session, model.inputs, model.outputs, run.export_file));
  if (!run.training.quiet) std::printf("The model was saved to %s.\n", run.export_file.c_str());
  return absl::OkStatus();
}

// A step cannot tell time in which its process was stopped from time in which a device did not answer.
absl::Status WithStop(const absl::Status& status, absl::Duration step_timeout) {
  const absl::Time went_on = StopSignals::went_on();
  const absl::Duration ago = SteadyNow() - went_on;
  if (!absl::IsDeadlineExceeded(status) || went_on == absl::InfinitePast() || ago > step_timeout) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "\nThis process was stopped (SIGSTOP, Ctrl-Z) until ",
                                   absl::FormatDuration(absl::Trunc(ago, absl::Milliseconds(1))),
                                   " ago, which counts; allow for that with --step_timeout"));
}

}  // namespace

std::vector<NamedOutput> InputsOf(const models::Batch& batch, absl::string_view label) {
  std::vector<NamedOutput> inputs;
  for (size_t i = 0; i < batch.fields().size(); ++i) {
    if (batch.fields()[i].name != label) inputs.push_back({batch.fields()[i].name, batch.placeholders()[i]});
  }
  return inputs;
}

int DataThreads(const DeviceSet& devices) {
  constexpr int kPerCard = 3;
  std::set<int> cards;
  for (const int tower : devices.TowerDevices()) {
    const Device& device = devices.device(tower);
    if (device.type() == "GPU") cards.insert(device.physical_id());
  }
  return std::clamp(kPerCard * static_cast<int>(cards.size()), 1, std::max(1, UsableCores() / 2));
}

absl::StatusOr<size_t> BucketBytes(World& world, const DeviceSet& devices, absl::Time deadline) {
  const std::string own = absl::StrCat(models::DefaultBucketBytes(devices));
  ASSIGN_OR_RETURN(const std::vector<std::string> all, world.AllGather(own, deadline));
  const std::string on_gpus = absl::StrCat(models::kBucketBytesOnGpus);
  const bool gpus = std::all_of(all.begin(), all.end(), [&](const std::string& bytes) { return bytes == on_gpus; });
  return gpus ? models::kBucketBytesOnGpus : models::kBucketBytes;
}

int64_t CountParameters(const models::TrainStep& step) {
  int64_t count = 0;
  for (const Variable& variable : step.towers[0].variables) count += variable.shape().elements();
  return count;
}

absl::StatusOr<int> RunTraining(TrainingProgram& program, ProgramRun& run) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Made> made, Make(program, run));
  TrainerOptions& options = run.training;
  const auto planned = [&](int64_t batch_size) {
    const int64_t examples = run.train->size();
    const bool drops = run.order.drop_remainder;
    const int64_t batches = data::BatchesPerEpoch(examples, batch_size, drops);
    // A run of less than an epoch does not come to its last batch.
    const int64_t last = options.steps < batches ? batch_size : data::LastBatchSize(examples, batch_size, drops);
    std::vector<PlannedStep> steps = TrainingSteps(made->step, batch_size, last, options.summaries);
    steps.insert(steps.end(), options.evaluation_steps.begin(), options.evaluation_steps.end());
    return steps;
  };
  if (run.explain) {
    RETURN_IF_ERROR(Explain(run, *made, planned));
    return 0;
  }
  if (run.memory_limit.has_value()) {
    RETURN_IF_ERROR(FitMemoryLimit(*made->session, planned(run.order.batch_size), *run.memory_limit));
  }
  RETURN_IF_ERROR(CheckExport(program, run));
  RETURN_IF_ERROR(PrintHeader(program, run, *made));
  if (run.find_learning_rate) {
    RETURN_IF_ERROR(SearchLearningRate(run, *made));
    return 0;
  }
  if (run.test != nullptr) {
    options.evaluate = [&](int64_t step) { return program.Evaluate(run, *made->session, step); };
  }
  options.tasks.step_timeout = run.session.timeout;
  const StopSignals signals(run.max_run_time);
  Trainer trainer(*made->session, made->step, *made->input, options);
  RETURN_IF_ERROR(WithStop(trainer.Run(), options.tasks.step_timeout));
  if (run.world.rank() != 0 || !options.resume.replay.empty()) return trainer.stopped();
  if (trainer.stopped() != 0 && run.stopped_text) {
    std::printf("%s\n", run.stopped_text(trainer.stopped(), trainer.steps()).c_str());
  }
  RETURN_IF_ERROR(program.Result(run, *made->session, trainer));
  RETURN_IF_ERROR(Export(program, run, *made->session));
  return trainer.stopped();
}

}  // namespace belfry::trainers
