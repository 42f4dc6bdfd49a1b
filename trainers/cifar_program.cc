#include "trainers/cifar_program.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/units.h"
#include "models/networks/cifar_net.h"
#include "models/networks/resnet.h"
#include "ops/array.h"
#include "optim/variable_filter.h"
#include "trainers/callbacks/progress.h"
#include "trainers/datasets/textures.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kStaircaseEpochs = 350;

absl::StatusOr<data::Cifar10> OpenFiles(const std::string& data_dir, bool generated, World& world,
                                        absl::Time deadline) {
  if (!generated) {
    RETURN_IF_ERROR(world.AllGather("", deadline).status());
    return data::OpenCifar10(data_dir);
  }
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (error) return absl::UnavailableError(absl::StrCat("No temporary directory (TMPDIR): ", error.message()));
  const std::string place = (temporary / "belfry_textures").string();
  const bool first = world.processes()[world.rank()].local_rank == 0;
  if (first) RETURN_IF_ERROR(data::PlaceTextures(place).status());
  RETURN_IF_ERROR(world.AllGather("", deadline).status());
  ASSIGN_OR_RETURN(const std::string directory, data::PlaceTextures(place));
  return data::OpenCifar10(directory);
}

}  // namespace

absl::Status CifarProgram::OpenData(ProgramRun& run) {
  ASSIGN_OR_RETURN(data_, OpenFiles(options_.data_dir, generated(), run.world, SteadyNow() + run.start_timeout));
  run.train = data_.train.get();
  run.test = data_.test.get();
  if (options_.resnet_depth > 0) {
    ASSIGN_OR_RETURN(const data::ChannelStatistics statistics, data::ComputeChannelStatistics(*data_.train));
    run.order.images = {{"image", data::ResNetTraining(statistics)}};
    evaluation_images_ = {{"image", data::ResNetEvaluation(statistics)}};
  } else {
    run.order.images = {{"image", data::TutorialTraining()}};
    evaluation_images_ = {{"image", data::TutorialEvaluation()}};
  }
  run.order.images["image"].cutout = options_.cutout;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<optim::Optimizer>> CifarProgram::MakeOptimizer(const ProgramRun& run) const {
  const double rate = options_.learning_rate;
  optim::Schedule schedule = rate;
  if (options_.schedule == "cosine") schedule = optim::Cosine(rate, std::max<int64_t>(run.training.steps, 1));
  if (options_.schedule == "staircase") {
    const int64_t decay_steps = run.train->size() * kStaircaseEpochs / run.order.batch_size;
    if (decay_steps == 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "A batch of %d is too large for --schedule=staircase: %d epochs of %d images do not fill a step",
          run.order.batch_size, kStaircaseEpochs, run.train->size()));
    }
    schedule = optim::Exponential(rate, decay_steps, 0.1, true);
  }
  OptimizerChoice choice = options_.optimizer;
  if (choice.name.empty()) choice.name = options_.momentum == 0 ? "descent" : "momentum";
  choice.learning_rate = schedule;
  choice.momentum = options_.momentum;
  // All but the first and the last layer.
  choice.hidden = [](const Variable& variable) {
    return !optim::NameMatches({"conv1/*", "softmax_linear/*", "logits/*"})(variable);
  };
  return trainers::MakeOptimizer(choice);
}

// [N, 10] float32 for any dtype.
absl::StatusOr<Output> CifarProgram::Logits(const Scope& scope, const models::Batch& batch, bool training) const {
  Output images = batch["image"];
  if (options_.dtype != DType::kFloat32) images = ops::Cast(scope.Named("narrow"), images, options_.dtype);
  const Output logits = options_.resnet_depth > 0
                            ? models::ResNet(scope, images, {.depth = options_.resnet_depth, .training = training})
                            : models::CifarNet(scope, images);
  return ops::Cast(scope.Named("logits"), logits, DType::kFloat32);
}

std::string CifarProgram::Header(const ProgramRun& run, const models::TrainStep& step) const {
  return absl::StrFormat("Model:    %s, %d parameters\nData:     %d training and %d test images\n", options_.model,
                         CountParameters(step), run.train->size(), run.test->size());
}

absl::Status CifarProgram::Result(const ProgramRun& run, Session&, const Trainer& trainer) {
  if (trainer.stopped() != 0) return absl::OkStatus();
  const bool quiet = run.training.quiet;
  if (!quiet && options_.confusion) {
    const auto& names = run.train->fields()[1].category_names;
    std::printf("\n%s\n", ConfusionTable(results_, names, TerminalColumns()).c_str());
  }
  const double accuracy = 100 * results_.accuracy;
  if (trainer.steps() == 0) {
    absl::PrintF("Nothing was trained: --steps=0. Test accuracy %.2f%% of the untrained model.\n", accuracy);
  } else {
    const double rate = trainer.examples_per_second();  // 0 if no step was timed
    absl::PrintF("Test accuracy %.2f%% after %s%s.\n", accuracy, Counted(trainer.steps(), "step"),
                 rate > 0 ? absl::StrFormat(", %.0f images/s", rate) : "");
  }
  if (!quiet) absl::PrintF("Next: --data_dir=DIR for real CIFAR-10, --steps=N, --model=resnet20, --help.\n");
  return absl::OkStatus();
}

}  // namespace belfry::trainers
