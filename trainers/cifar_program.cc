#include "trainers/cifar_program.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/units.h"
#include "framework/data/image_statistics.h"
#include "models/layers/views.h"
#include "models/networks/cifar_net.h"
#include "models/networks/resnet.h"
#include "models/networks/speedrun_net.h"
#include "ops/array.h"
#include "optim/variable_filter.h"
#include "trainers/callbacks/progress.h"
#include "trainers/datasets/textures.h"
#include "trainers/grouped_rates.h"

namespace belfry::trainers {
namespace {

constexpr int64_t kWhitenEpochs = 3;  // in which the biases of a SpeedrunNet's first layer train

int64_t EpochSteps(const ProgramRun& run) {
  return data::BatchesPerEpoch(run.train->size(), run.order.batch_size, run.order.drop_remainder);
}

// The folder of the data.
absl::StatusOr<std::string> Place(const std::string& data_dir, bool generated, World& world, absl::Time deadline) {
  if (!generated) {
    RETURN_IF_ERROR(world.AllGather("", deadline).status());
    return data_dir;
  }
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  if (error) return absl::UnavailableError(absl::StrCat("No temporary directory (TMPDIR): ", error.message()));
  const std::string place = (temporary / "belfry_textures").string();
  const bool first = world.processes()[world.rank()].local_rank == 0;
  if (first) RETURN_IF_ERROR(data::PlaceTextures(place).status());
  RETURN_IF_ERROR(world.AllGather("", deadline).status());
  return data::PlaceTextures(place);
}

}  // namespace

absl::Status CifarProgram::OpenData(ProgramRun& run) {
  ASSIGN_OR_RETURN(const std::string place,
                   Place(options_.data_dir, generated(), run.world, SteadyNow() + run.start_timeout));
  ASSIGN_OR_RETURN(data_, data::OpenCifar10(place));
  run.training.tasks.data_paths = {place};
  run.train = data_.train.get();
  run.test = data_.test.get();
  if (options_.epochs > 0) {
    run.training.steps = static_cast<int64_t>(std::floor(options_.epochs * static_cast<double>(EpochSteps(run))));
    // The slow weights are the model, so the run ends when they have moved.
    const int64_t every = std::max<int64_t>(options_.optimizer.lookahead, 1);
    run.training.steps -= run.training.steps % every;
    if (run.training.steps == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--epochs=", options_.epochs, " of ", EpochSteps(run),
                                                     " batches is less than ", Counted(every, "step"),
                                                     every > 1 ? ", which --lookahead needs" : ""));
    }
  }
  return SetImages(run);
}

absl::Status CifarProgram::SetImages(ProgramRun& run) {
  data::ImagePolicy train = data::TutorialTraining(), test = data::TutorialEvaluation();
  if (options_.resnet_depth > 0 || options_.speedrun) {
    ASSIGN_OR_RETURN(const data::ChannelStatistics statistics, data::ComputeChannelStatistics(*data_.train));
    train = options_.speedrun ? data::SpeedrunTraining(statistics) : data::ResNetTraining(statistics);
    test = data::ResNetEvaluation(statistics);
  }
  if (options_.per_pixel_mean) {
    ASSIGN_OR_RETURN(test.mean, data::ComputeMeanImage(*data_.train));
    test.normalise = data::ImagePolicy::Normalise::kPerPixel;
    test.deviation.assign(data::kCifar10Channels, 255);
    train.normalise = test.normalise;
    train.mean = test.mean;
    train.deviation = test.deviation;
  }
  if (options_.speedrun) {
    ASSIGN_OR_RETURN(whitening_, data::WhiteningFilters(*data_.train, test));
  }
  train.cutout = options_.cutout;
  run.order.images = {{"image", train}};
  evaluation_images_ = {{"image", test}};
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<optim::Optimizer>> CifarProgram::MakeOptimizer(const ProgramRun& run) const {
  const ScheduledRun scheduled = ScheduledOf(run);
  ASSIGN_OR_RETURN(const optim::Schedule schedule,
                   MakeSchedule(options_.schedule, options_.schedule.learning_rate, scheduled));
  OptimizerChoice choice = options_.optimizer;
  if (choice.name == "default") choice.name = options_.momentum == 0 ? "descent" : "momentum";
  const int64_t steps = std::max<int64_t>(run.training.steps, 1);
  if (options_.lookahead_end > 0) choice.lookahead_alpha = optim::Ramp(1, steps, options_.lookahead_end, 3);
  if (options_.norm_learning_rate > 0 || options_.head_learning_rate > 0 || options_.weight_decay_per_step > 0) {
    GroupedRates rates{.learning_rate = options_.schedule.learning_rate,
                       .norm_learning_rate = options_.norm_learning_rate,
                       .head_learning_rate = options_.head_learning_rate,
                       .weight_decay = options_.weight_decay_per_step,
                       .momentum = options_.momentum < 0 ? 0.9 : options_.momentum,
                       .nesterov = choice.name == "nesterov",
                       .muon = choice.name == "muon",
                       .schedule = [&](double peak) { return *MakeSchedule(options_.schedule, peak, scheduled); }};
    const int64_t whiten_steps = kWhitenEpochs * EpochSteps(run);
    if (options_.speedrun && options_.schedule.name == "triangle") {
      rates.whiten_schedule = [=](double peak) { return Triangle(peak, steps, whiten_steps); };
    } else if (options_.speedrun && options_.schedule.name == "linear") {
      rates.whiten_schedule = [=](double peak) { return optim::Polynomial(peak, whiten_steps); };
    }
    return WithLookahead(MakeGroupedOptimizer(rates), choice);
  }
  choice.learning_rate = schedule;
  choice.momentum = options_.momentum;
  // All but the first and the last layer.
  choice.hidden = [](const Variable& variable) {
    return !optim::NameMatches({"conv1/*", "softmax_linear/*", "logits/*"})(variable);
  };
  return trainers::MakeOptimizer(choice);
}

// [N, 10] float32 for any dtype.
Output CifarProgram::Network(const Scope& scope, Output images, bool training) const {
  const auto logits = [&]() {
    if (options_.resnet_depth > 0)
      return models::ResNet(scope, images, {.depth = options_.resnet_depth, .training = training});
    if (!options_.speedrun) return models::CifarNet(scope, images);
    return models::SpeedrunNet(scope, images,
                               {.unit_logits = options_.unit_logits, .training = training, .whitening = whitening_});
  }();
  return ops::Cast(scope.Named("logits"), logits, DType::kFloat32);
}

absl::StatusOr<Output> CifarProgram::Logits(const Scope& scope, const models::Batch& batch, bool training) const {
  Output images = batch["image"];
  if (options_.dtype != DType::kFloat32) images = ops::Cast(scope.Named("narrow"), images, options_.dtype);
  const auto network = [&](Output views) { return Network(scope, views, training); };
  return training ? network(images) : models::AverageOverViews(scope, images, options_.evaluate_views, network);
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
