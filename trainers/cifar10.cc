// Trains a network on CIFAR-10, or on a generated set in the same format, with one tower per device.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/data/cifar10.h"
#include "framework/data/resume.h"
#include "framework/data/textures.h"
#include "models/cifar_net.h"
#include "models/losses.h"
#include "models/replicate_towers.h"
#include "models/resnet.h"
#include "models/summaries.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "optim/descent.h"
#include "optim/moving_average.h"
#include "trainers/callbacks/progress.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/device_flags.h"
#include "trainers/flags/explain_flags.h"
#include "trainers/flags/output_flags.h"
#include "trainers/flags/replication_flags.h"
#include "trainers/flags/session_flags.h"
#include "trainers/flags/step_flags.h"
#include "trainers/flags/training_flags.h"
#include "trainers/flags/world_flags.h"
#include "trainers/loop/bucket_choice.h"
#include "trainers/loop/evaluator.h"
#include "trainers/loop/explain.h"
#include "trainers/loop/run_header.h"
#include "trainers/loop/stop_signals.h"
#include "trainers/loop/tasks.h"
#include "trainers/loop/trainer.h"

ABSL_FLAG(
    std::string, model, "cifar_net",
    "cifar_net: the network of TensorFlow's CIFAR-10 tutorial, 1,068,298 parameters. resnet20, resnet32, resnet44, "
    "resnet56: the networks of He et al., 2016, section 4.2.");
ABSL_FLAG(std::string, dtype, "float32",
          "Type in which the network computes: float32, bfloat16 or float16. Weights, averages and updates are float32 "
          "in any case.");
ABSL_FLAG(std::string, loss_scale, "",
          "Factor on the loss, so that gradients do not vanish in float16; gradients are divided by it before they are "
          "used. dynamic: starts at 32768, doubles after 2000 good steps, and halves when a gradient overflows, which "
          "skips the step. A number: that constant factor. none: no scaling. Default: dynamic for float16, none "
          "otherwise.");
ABSL_FLAG(double, learning_rate, 0.1, "Peak learning rate.");
ABSL_FLAG(
    std::string, schedule, "cosine",
    "Learning rate over the steps. cosine: half a cosine, down to 0 at --steps. staircase: times 0.1 every 350 epochs, "
    "as in the tutorial. constant.");
ABSL_FLAG(double, momentum, -1, "Momentum; 0: plain gradient descent; -1: 0 for cifar_net and 0.9 for a ResNet.");
ABSL_FLAG(std::string, batch_norm, "per_tower",
          "Images over which the batch normalisation of a ResNet takes its statistics. per_tower: those of each tower, "
          "with the moving averages of tower 0. synchronised: those of all towers, so that N towers train as one.");
ABSL_FLAG(std::string, bucket_size, "1M",
          "Bytes of gradients to average together: 65536, 512K, 4M. auto: with several processes, those with the "
          "shortest predicted step, for which the link and some steps are timed first, in a few seconds; 1M in one "
          "process. The result does not depend on it, except with --averager=nccl.");
ABSL_FLAG(double, moving_average, 0,
          "Decay of an exponential moving average of the weights, which evaluation then uses; the tutorial's value is "
          "0.9999. 0: no average.");
ABSL_FLAG(int64_t, evaluate_every, 0, "Steps between evaluations on the test set; 0: evaluate only at the end.");
ABSL_FLAG(int64_t, evaluate_every_epochs, 0, "--evaluate_every in passes over the training set instead of steps.");
ABSL_FLAG(int64_t, patience, 0, "Evaluations without a better test accuracy after which training stops; 0: no limit.");
ABSL_FLAG(bool, restore_best, false,
          "At the end, go back to the best evaluation's checkpoint in --train_dir, and report that one.");
ABSL_FLAG(std::string, data_dir, "",
          "Directory with CIFAR-10's binary files. Empty or 'generated': a generated set of textured shapes.");
ABSL_FLAG(int, data_threads, 1,
          "Threads that prefetch and augment images, up to 1024; 0: the training thread does it.");
ABSL_FLAG(bool, confusion, true, "Print the confusion matrix of the classes at the end.");
ABSL_FLAG(bool, quiet, false, "Print only errors and the result.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Trains a network on CIFAR-10 with one tower per device.

  cifar10 --devices=cpu:2                   2,000 steps on a generated set: ten classes of textured shapes
  cifar10 --devices=cpu:2 --data_dir=DIR    4,000 steps on CIFAR-10 in its binary format (DIR/data_batch_1.bin ...)
  cifar10 --devices=cpu:4 --model=resnet20 --data_dir=DIR --steps=64000

--batch_size is the batch of a whole step. It is split evenly over the towers and gradients are averaged, so the number
of devices changes the speed but not the result, up to rounding. Images are randomly cropped, flipped, and changed in
brightness and contrast, depending only on --seed, the step and the image. After training the test accuracy is printed;
--steps=0 prints that of the untrained model. The first run writes the generated set (68 MB) to belfry_textures in the
temporary directory (TMPDIR, or /tmp), where later runs find it.)";

constexpr int kEvaluationReplica = 1 << 20;  // of the variables that hold moving averages; not a tower's
constexpr int64_t kEvaluationBatch = 500;
constexpr int kMaxDataThreads = 1024;
constexpr int64_t kStaircaseEpochs = 350;
constexpr int64_t kGeneratedSteps = 2000, kCifarSteps = 4000;

// The data, model and schedule that the flags describe.
struct Setup {
  data::Cifar10 data;
  data::ImagePolicies training, evaluation;
  int resnet_depth = 0;  // 0: cifar_net
  int64_t steps = 0, batch_size = 0;
  double momentum = 0;
};

// The first process of each machine generates the images, and the others wait for it: also those that need none, as
// --data_dir may differ.
absl::StatusOr<data::Cifar10> OpenData(bool generated, World& world) {
  if (!generated) {
    RETURN_IF_ERROR(world.AllGather("", StartDeadline()).status());
    return data::OpenCifar10(absl::GetFlag(FLAGS_data_dir));
  }
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (error) return absl::UnavailableError(absl::StrCat("No temporary directory (TMPDIR): ", error.message()));
  const std::string place = (temporary / "belfry_textures").string();
  const bool first = world.processes()[world.rank()].local_rank == 0;
  if (first) RETURN_IF_ERROR(data::PlaceTextures(place).status());
  RETURN_IF_ERROR(world.AllGather("", StartDeadline()).status());
  ASSIGN_OR_RETURN(const std::string directory, data::PlaceTextures(place));
  return data::OpenCifar10(directory);
}

// --loss_scale, or its default for --dtype.
std::string LossScaleText() {
  const std::string text = absl::GetFlag(FLAGS_loss_scale);
  if (!text.empty()) return text;
  return absl::GetFlag(FLAGS_dtype) == "float16" ? "dynamic" : "none";
}

absl::StatusOr<std::optional<optim::LossScaleOptions>> LossScaleFromFlags() {
  auto options = optim::ParseLossScale(LossScaleText());
  if (options.ok()) return options;
  return absl::InvalidArgumentError(absl::StrCat("--loss_scale: ", options.status().message()));
}

absl::Status CheckFlags() {
  RETURN_IF_ERROR(
      CheckFlag("evaluate_every", absl::GetFlag(FLAGS_evaluate_every), 0, std::numeric_limits<int64_t>::max()));
  RETURN_IF_ERROR(CheckFlag("evaluate_every_epochs", absl::GetFlag(FLAGS_evaluate_every_epochs), 0, 1'000'000));
  if (absl::GetFlag(FLAGS_evaluate_every_epochs) > 0) {
    RETURN_IF_ERROR(RejectFlags({"evaluate_every"}, "a run with --evaluate_every_epochs"));
  }
  if (absl::GetFlag(FLAGS_patience) > 0 && absl::GetFlag(FLAGS_evaluate_every) == 0 &&
      absl::GetFlag(FLAGS_evaluate_every_epochs) == 0) {
    return absl::InvalidArgumentError("--patience counts evaluations; set --evaluate_every as well");
  }
  if (absl::GetFlag(FLAGS_restore_best) && absl::GetFlag(FLAGS_train_dir).empty()) {
    return absl::InvalidArgumentError("--restore_best=true reads a checkpoint; set --train_dir as well");
  }
  RETURN_IF_ERROR(CheckFlag("patience", absl::GetFlag(FLAGS_patience), 0, std::numeric_limits<int64_t>::max()));
  RETURN_IF_ERROR(CheckFlag("data_threads", absl::GetFlag(FLAGS_data_threads), 0, kMaxDataThreads));
  RETURN_IF_ERROR(CheckLearningRate(absl::GetFlag(FLAGS_learning_rate)));
  const double momentum = absl::GetFlag(FLAGS_momentum), average = absl::GetFlag(FLAGS_moving_average);
  if (momentum != -1 && !(momentum >= 0 && momentum < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--momentum=", momentum, " must be at least 0 and below 1, or -1 for the model's default"));
  }
  if (!(average >= 0 && average < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("--moving_average=", average, " must be at least 0 and below 1"));
  }
  RETURN_IF_ERROR(ParseBucketSize(absl::GetFlag(FLAGS_bucket_size)).status());
  if (absl::GetFlag(FLAGS_variable_update) != "replicated") {
    RETURN_IF_ERROR(RejectFlags({"bucket_size"},
                                absl::StrCat("a run with --variable_update=", absl::GetFlag(FLAGS_variable_update))));
  }
  const std::string schedule = absl::GetFlag(FLAGS_schedule), dtype = absl::GetFlag(FLAGS_dtype);
  if (dtype != "float32" && dtype != "bfloat16" && dtype != "float16") {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype=", dtype, " is unknown; the types are float32, bfloat16 and float16"));
  }
  RETURN_IF_ERROR(LossScaleFromFlags().status());
  if (schedule != "constant" && schedule != "cosine" && schedule != "staircase") {
    return absl::InvalidArgumentError(
        absl::StrFormat("--schedule=%s is unknown; the schedules are cosine, staircase and constant", schedule));
  }
  return absl::OkStatus();
}

absl::StatusOr<Setup> MakeSetup(World& world, int towers) {
  Setup setup;
  ASSIGN_OR_RETURN(setup.batch_size, GlobalBatchSize(towers));
  const std::string model = absl::GetFlag(FLAGS_model), directory = absl::GetFlag(FLAGS_data_dir);
  const bool generated = directory.empty() || directory == "generated";
  for (int depth : {20, 32, 44, 56}) {
    if (model == absl::StrFormat("resnet%d", depth)) setup.resnet_depth = depth;
  }
  if (setup.resnet_depth == 0 && model != "cifar_net") {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--model=%s is unknown; the models are cifar_net, resnet20, resnet32, resnet44 and resnet56", model));
  }
  ASSIGN_OR_RETURN(setup.steps, Steps(generated ? kGeneratedSteps : kCifarSteps));
  ASSIGN_OR_RETURN(setup.data, OpenData(generated, world));
  RETURN_IF_ERROR(CheckBatchFits(setup.batch_size, setup.data.train->size(), "training image"));
  if (setup.resnet_depth > 0) {
    ASSIGN_OR_RETURN(const data::ChannelStatistics statistics, data::ComputeChannelStatistics(*setup.data.train));
    setup.training = {{"image", data::ResNetTraining(statistics)}};
    setup.evaluation = {{"image", data::ResNetEvaluation(statistics)}};
  } else {
    setup.training = {{"image", data::TutorialTraining()}};
    setup.evaluation = {{"image", data::TutorialEvaluation()}};
  }
  setup.momentum = absl::GetFlag(FLAGS_momentum);
  if (setup.momentum < 0) setup.momentum = setup.resnet_depth > 0 ? 0.9 : 0;
  return setup;
}

absl::StatusOr<optim::Schedule> MakeSchedule(const Setup& setup) {
  const double rate = absl::GetFlag(FLAGS_learning_rate);
  const std::string schedule = absl::GetFlag(FLAGS_schedule);
  if (schedule == "constant") return optim::Schedule(rate);
  if (schedule == "cosine") return optim::Cosine(rate, std::max<int64_t>(setup.steps, 1));
  const int64_t decay_steps = setup.data.train->size() * kStaircaseEpochs / setup.batch_size;
  if (decay_steps == 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "A batch of %d is too large for --schedule=staircase: %d epochs of %d images do not fill a step",
        setup.batch_size, kStaircaseEpochs, setup.data.train->size()));
  }
  return optim::Exponential(rate, decay_steps, 0.1, true);
}

// [N, 10] float32 for any --dtype.
Output Logits(const Scope& scope, const Setup& setup, Output images, bool training) {
  const std::string dtype = absl::GetFlag(FLAGS_dtype);
  if (dtype == "bfloat16") images = ops::Cast(scope.Named("narrow"), images, DType::kBFloat16);
  if (dtype == "float16") images = ops::Cast(scope.Named("narrow"), images, DType::kFloat16);
  const Output logits = setup.resnet_depth > 0
                            ? models::ResNet(scope, images, {.depth = setup.resnet_depth, .training = training})
                            : models::CifarNet(scope, images);
  return ops::Cast(scope.Named("logits"), logits, DType::kFloat32);
}

// `buckets`: how they were chosen; empty: they were not.
void PrintHeader(const Setup& setup, const std::string& towers, const models::TrainStep& step,
                 const std::string& buckets) {
  std::printf("Model:    %s, %d parameters\n", absl::GetFlag(FLAGS_model).c_str(),
              static_cast<int>(CountParameters(step)));
  std::printf("Data:     %d training and %d test images\n", static_cast<int>(setup.data.train->size()),
              static_cast<int>(setup.data.test->size()));
  std::printf("%s", towers.c_str());
  if (!buckets.empty()) std::printf("Buckets:  %s\n", buckets.c_str());
}

std::vector<RunSetting> Settings(const Setup& setup, int towers) {
  const auto text = [](auto value) { return absl::StrCat(value); };
  std::vector<RunSetting> settings = {
      {"--model", absl::GetFlag(FLAGS_model), /*fixed=*/true},
      {"--momentum", text(setup.momentum), /*fixed=*/true},
      {"--moving_average", text(absl::GetFlag(FLAGS_moving_average)), /*fixed=*/true},
      {"--loss_scale", LossScaleText(), /*fixed=*/true},
      {"--batch_size", text(setup.batch_size), /*fixed=*/true},
      {"--seed", text(absl::GetFlag(FLAGS_seed)), /*fixed=*/true},
      {"--steps", text(setup.steps)},
      {"--learning_rate", text(absl::GetFlag(FLAGS_learning_rate))},
      {"--schedule", absl::GetFlag(FLAGS_schedule)},
      {"--dtype", absl::GetFlag(FLAGS_dtype)},
  };
  if (setup.resnet_depth > 0) {
    const std::string batch_norm = absl::GetFlag(FLAGS_batch_norm);
    settings.push_back({"--batch_norm", batch_norm});
    // Statistics of a tower are those of its share of the batch.
    settings.push_back({"towers", batch_norm == "per_tower" ? text(towers) : "any"});
  }
  return settings;
}

void PrintResult(const Trainer& trainer, const Classification& evaluation, const Setup& setup, bool quiet) {
  if (!quiet && absl::GetFlag(FLAGS_confusion)) {
    const auto& names = setup.data.train->fields()[1].category_names;
    std::printf("\n%s\n", ConfusionTable(evaluation, names, TerminalColumns()).c_str());
  }
  const double accuracy = 100 * evaluation.accuracy;
  if (trainer.steps() == 0) {
    absl::PrintF("Nothing was trained: --steps=0. Test accuracy %.2f%% of the untrained model.\n", accuracy);
  } else {
    const double rate = trainer.examples_per_second();  // 0 if no step was timed
    absl::PrintF("Test accuracy %.2f%% after %s%s.\n", accuracy, Counted(trainer.steps(), "step"),
                 rate > 0 ? absl::StrFormat(", %.0f images/s", rate) : "");
  }
  if (!quiet) {
    absl::PrintF("Next: --data_dir=DIR for real CIFAR-10, --steps=N, --model=resnet20, --help.\n");
  }
}

// Returns the signal that ended the run, or 0.
absl::StatusOr<int> Train(World& world) {
  RETURN_IF_ERROR(CheckFlags());
  const bool first_task = world.rank() == 0, quiet = absl::GetFlag(FLAGS_quiet);
  TrainerOptions options{.quiet = quiet,
                         .unit = "images",
                         .evaluate_every = absl::GetFlag(FLAGS_evaluate_every),
                         .patience = absl::GetFlag(FLAGS_patience),
                         .restore_best = absl::GetFlag(FLAGS_restore_best)};
  RETURN_IF_ERROR(SetTrainerOptions(options, world));
  ASSIGN_OR_RETURN(const std::optional<size_t> memory_limit, MemoryLimit());
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices(world));
  ASSIGN_OR_RETURN(SessionOptions session_options, SessionOptionsFromFlags(devices));
  ASSIGN_OR_RETURN(models::ReplicateOptions replicate, ReplicateOptionsFromFlags(devices, world, session_options));
  if (replicate.variable_update == models::VariableUpdate::kIndependent) {
    RETURN_IF_ERROR(RejectFlags({"train_dir", "check_replicas_every"},
                                "a run with --variable_update=independent, whose towers differ"));
  }
  replicate.moving_average = absl::GetFlag(FLAGS_moving_average);
  ASSIGN_OR_RETURN(replicate.loss_scale, LossScaleFromFlags());
  ASSIGN_OR_RETURN(replicate.batch_norm, models::ParseBatchNormPolicy(absl::GetFlag(FLAGS_batch_norm)));
  if (!absl::GetFlag(FLAGS_explain) && first_task) {
    ASSIGN_OR_RETURN(options.metrics_file, PrepareOutputs());
  }
  ASSIGN_OR_RETURN(const Setup setup, MakeSetup(world, replicate.towers));
  options.steps = setup.steps;
  const std::vector<RunSetting> settings = Settings(setup, replicate.towers);
  options.metadata = RecordSettings(settings);
  ASSIGN_OR_RETURN(const std::string test_data, data::DataLine(*setup.data.test));
  options.settings.push_back(absl::StrCat("test ", test_data));
  ASSIGN_OR_RETURN(const optim::Schedule schedule, MakeSchedule(setup));
  ASSIGN_OR_RETURN(std::optional<io::Checkpoint> checkpoint, FindCheckpoint(settings, world));
  data::PrefetcherOptions order{.batch_size = setup.batch_size,
                                .towers = replicate.towers,
                                .first_tower = replicate.first_tower,
                                .local_towers = static_cast<int>(devices.TowerDevices().size()),
                                .seed = absl::GetFlag(FLAGS_seed),
                                .images = setup.training,
                                .threads = absl::GetFlag(FLAGS_data_threads)};
  if (checkpoint.has_value()) {
    options.resume = &*checkpoint;
    options.resume_note = ChangedSettings(checkpoint->metadata, settings);
    ASSIGN_OR_RETURN(order.start, data::TakePosition(checkpoint->metadata, order, setup.data.train->size()));
  }
  ASSIGN_OR_RETURN(const auto input, data::Prefetcher::Create(*setup.data.train, order));
  if (const int64_t epochs = absl::GetFlag(FLAGS_evaluate_every_epochs); epochs > 0) {
    options.evaluate_every = epochs * input->batches_per_epoch();
  }

  const auto loss = [&](const Scope& tower, const models::Batch& batch) -> absl::StatusOr<Output> {
    const Output logits = Logits(tower, setup, batch["image"], /*training=*/true);
    models::AddCrossEntropy(tower, logits, batch["label"]);
    return models::TotalLoss(tower);
  };
  const optim::Momentum with_momentum({.learning_rate = schedule, .momentum = setup.momentum});
  const optim::GradientDescent plain({.learning_rate = schedule});
  const optim::Optimizer& optimizer = setup.momentum > 0 ? static_cast<const optim::Optimizer&>(with_momentum) : plain;
  const auto add_step = [&](Graph& graph, size_t bucket_bytes) {
    graph.set_seed(absl::GetFlag(FLAGS_seed));
    replicate.bucket_bytes = bucket_bytes;
    return models::ReplicateTowers(Scope(graph), devices, *input, loss, optimizer, replicate);
  };
  const auto way = absl::GetFlag(FLAGS_averager) == "mpi" ? ExchangeWay::kRing : ExchangeWay::kSlices;
  ASSIGN_OR_RETURN(const std::optional<size_t> bucket_size, ParseBucketSize(absl::GetFlag(FLAGS_bucket_size)));
  size_t bucket_bytes = bucket_size.value_or(models::ReplicateOptions().bucket_bytes);
  std::string buckets;
  if (!bucket_size.has_value() && world.size() > 1) {
    ASSIGN_OR_RETURN(const BucketChoice choice, ChooseBuckets(world, devices, session_options, way, setup.batch_size,
                                                              bucket_bytes, add_step, StartDeadline()));
    bucket_bytes = choice.bytes;
    buckets = choice.text;
  }
  Graph graph(BuiltinOps());
  const models::TrainStep step = add_step(graph, bucket_bytes);
  RETURN_IF_ERROR(graph.status());
  if (!options.directory.empty() && options.summary_every > 0) {
    options.summaries = models::AddTrainSummaries(Scope(graph), step);
  }

  const bool averages = replicate.moving_average > 0;
  const Scope evaluation = Scope(graph)
                               .NameScope("evaluation")
                               .Device(devices.device(step.towers[0].device).name())
                               .Replica(averages ? kEvaluationReplica : replicate.first_tower)
                               .ReuseVariables(averages ? Reuse::kNever : Reuse::kAlways);
  const Evaluator evaluator(evaluation, input->fields(), [&](const Scope& scope, const models::Batch& batch) {
    return absl::StatusOr<Output>(Logits(scope, setup, batch["image"], /*training=*/false));
  });
  const Node* take_averages =
      averages ? optim::ExponentialMovingAverage::AssignTo(evaluation, replicate.first_tower) : nullptr;

  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, session_options));
  options.evaluation_steps = evaluator.Steps(setup.data.test->size(), kEvaluationBatch);
  const auto planned = [&](int64_t batch_size) {
    std::vector<PlannedStep> steps = TrainingSteps(step, batch_size, setup.data.train->size(), options.summaries);
    steps.insert(steps.end(), options.evaluation_steps.begin(), options.evaluation_steps.end());
    return steps;
  };
  if (absl::GetFlag(FLAGS_explain)) {
    ASSIGN_OR_RETURN(const std::string text, ExplainRun(*session, planned, setup.batch_size, order.towers,
                                                        setup.data.train->size(), memory_limit));
    if (first_task) std::printf("%s", text.c_str());
    if (world.size() == 1) return 0;
    ASSIGN_OR_RETURN(const std::string link,
                     ExplainLink(world, *session, planned(setup.batch_size)[0], way, StartDeadline()));
    if (first_task) std::printf("\n%s", link.c_str());
    if (first_task && !buckets.empty()) std::printf("Buckets: %s.\n", buckets.c_str());
    return 0;
  }
  if (memory_limit.has_value()) {
    RETURN_IF_ERROR(CheckMemoryLimit(*session, planned(setup.batch_size), *memory_limit));
  }
  ASSIGN_OR_RETURN(const std::string towers,
                   TowerLines(world, devices, step, replicate.towers, absl::GetFlag(FLAGS_variable_update),
                              setup.batch_size, StartDeadline()));
  if (!quiet && first_task) PrintHeader(setup, towers, step, buckets);
  Classification evaluation_results;
  options.evaluate = [&](int64_t step) -> absl::StatusOr<Evaluation> {
    ASSIGN_OR_RETURN(evaluation_results, evaluator.Run(*session, *setup.data.test, setup.evaluation, kEvaluationBatch,
                                                       take_averages, &world, options.task_timeout));
    RETURN_IF_ERROR(CheckLoss(evaluation_results.loss, step));
    return evaluation_results;
  };
  options.step_timeout = session_options.timeout;
  const StopSignals signals;
  Trainer trainer(*session, step, *input, options);
  RETURN_IF_ERROR(trainer.Run());
  if (!first_task) return trainer.stopped();
  if (trainer.stopped() != 0) {
    std::printf("%s\n", StoppedText(trainer.stopped(), trainer.steps()).c_str());
  } else {
    PrintResult(trainer, evaluation_results, setup, quiet);
  }
  return trainer.stopped();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunProgram([&] {
    ParseCommandLine(argc, argv, kUsage);
    return RunInWorld(Train);
  });
}
