// Trains a network on CIFAR-10, or on a generated set in the same format, with a tower, or several, on each device.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "trainers/cifar_program.h"
#include "trainers/cifar_recipes.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/optimizer_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/flags/run_flags.h"
#include "trainers/program/bucket_choice.h"

ABSL_FLAG(
    std::string, recipe, "",
    "A published training: the flags below that it sets, which flags on the command line replace. speedrun: "
    "airbench94_compiled (Jordan, 2024), 9.9 epochs. record: airbench94_muon, 8 epochs. resnet: ResNet-20 as in He "
    "et al., 2016, section 4.2, 64,000 steps. Empty: none.");
ABSL_FLAG(
    std::string, model, "cifar_net",
    "cifar_net: the network of TensorFlow's CIFAR-10 tutorial, 1,068,298 parameters. resnet20, resnet32, resnet44, "
    "resnet56: the networks of He et al., 2016, section 4.2. speedrun_net, record_net: those of --recipe=speedrun and "
    "record, which differ in the scale of the logits; the weights of the first layer come from the first 5,000 "
    "images.");
ABSL_FLAG(double, epochs, 0,
          "Passes over the training data, instead of --steps: 9.9. With --lookahead the steps are rounded down to a "
          "multiple of it. 0: --steps.");
ABSL_FLAG(bool, drop_remainder, false, "Leave out the last, smaller batch of each epoch.");
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
    "as in the tutorial. constant. triangle: up from 0.2 of the rate to all of it at 23 % of the steps, and down to "
    "0.07. linear: down to 0. step_decay: times 0.1 at one half and at three quarters of the steps. With triangle and "
    "linear the biases of the first layer of speedrun_net train for 3 epochs.");
ABSL_FLAG(
    double, norm_learning_rate, 0,
    "Peak learning rate of the offsets of batch normalisation and, with --optimizer=muon, of every variable that is "
    "not a matrix, which then takes Nesterov's momentum. 0: --learning_rate.");
ABSL_FLAG(double, head_learning_rate, 0,
          "Peak learning rate of the last layer of a ResNet or speedrun_net. 0: --learning_rate.");
ABSL_FLAG(
    double, weight_decay, 0,
    "Share of a variable that a step at its peak learning rate takes away, whatever that rate is, in addition to the "
    "weight decay that the networks of papers have. Variables that Muon updates have none.");
ABSL_FLAG(double, lookahead_end, 0,
          "Share of the way that the slow weights of --lookahead go at the last step, falling from all of it with the "
          "cube of the steps. 0: half of the way throughout.");
ABSL_FLAG(double, momentum, -1, "Momentum; 0: plain gradient descent; -1: 0 for cifar_net and 0.9 for a ResNet.");
ABSL_FLAG(std::string, batch_norm, "per_tower",
          "Images over which the batch normalisation of a ResNet takes its statistics. per_tower: those of each tower, "
          "with the moving averages of tower 0. synchronised: those of all towers, so that N towers train as one.");
ABSL_FLAG(
    std::string, bucket_size, "",
    "Bytes of gradients to average together: 65536, 512K, 4M. Default: 1M for towers on CPUs, 25M for towers on "
    "GPUs. auto: with several processes on CPUs, those with the shortest predicted step, for which the link and "
    "some steps are timed first, in a few seconds; otherwise the default. The result does not depend on it, except "
    "with --averager=nccl.");
ABSL_FLAG(double, moving_average, 0,
          "Decay of an exponential moving average of the weights, which evaluation then uses; the tutorial's value is "
          "0.9999. 0: no average.");
ABSL_FLAG(double, label_smoothing, 0,
          "Share of the target that is spread evenly over the classes, of the training loss: 0.1 is usual; 0: none.");
ABSL_FLAG(int64_t, cutout, 0,
          "Edge of a square of the training images, somewhere, that is blanked: 16 is usual for CIFAR-10; 0: none.");
ABSL_FLAG(double, mixup, 0,
          "Train on mixtures of two images and of their labels, with weights from Beta(mixup, mixup): 0.2 is usual; 0: "
          "none.");
ABSL_FLAG(bool, per_pixel_mean, false,
          "Subtract the mean of each pixel from the images of a ResNet, as in the paper, instead of normalising their "
          "channels. On the host.");
ABSL_FLAG(
    int64_t, evaluate_views, 1,
    "Views of each test image over which the logits are averaged. 2: the image and its mirror image. 6: both also "
    "moved by a pixel up and left, and down and right.");
ABSL_FLAG(
    std::string, augment_on, "auto",
    "Who crops, flips and normalises the training images. host: the threads that make batches. device: the step, on "
    "each tower's device, which is fed the images' bytes. auto: device for GPUs, except with --mixup; host for CPUs. "
    "Random numbers are the same, and results differ by rounding at most.");
ABSL_FLAG(
    bool, data_on_device, false,
    "Keep all training images in the memory of each device, and feed steps labels and positions only. CIFAR-10 takes "
    "154 MB of each GPU, as much again for the smaller batch at the end of an epoch, and as much of the host's "
    "memory.");
ABSL_FLAG(std::string, data_dir, "",
          "Directory with CIFAR-10's binary files. Empty or 'generated': a generated set of textured shapes.");
ABSL_FLAG(bool, confusion, true, "Print the confusion matrix of the classes at the end.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Trains a network on CIFAR-10 with a tower, or several, on each device.

  cifar10 --devices=cpu:2                   2,000 steps on a generated set: ten classes of textured shapes
  cifar10 --devices=cpu:2 --data_dir=DIR    4,000 steps on CIFAR-10 in its binary format (DIR/data_batch_1.bin ...)
  cifar10 --devices=cpu:4 --recipe=speedrun --data_dir=DIR   10 epochs, as airbench94 trains
  cifar10 --devices=cpu:4 --recipe=resnet --data_dir=DIR     ResNet-20 as in its paper

--batch_size is the batch of a whole step. It is split evenly over the towers and gradients are averaged, so the number
of devices changes the speed but not the result, up to rounding. Images are randomly cropped, flipped, and changed in
brightness and contrast, depending only on --seed, the step and the image. After training the test accuracy is printed;
--steps=0 prints that of the untrained model. The first run writes the generated set (68 MB) to belfry_textures in the
temporary directory (TMPDIR, or /tmp), where later runs find it.)";

constexpr int64_t kGeneratedSteps = 2000, kCifarSteps = 4000;

// --augment_on and --data_on_device.
absl::StatusOr<data::AugmentBy> AugmentFromFlags(const DeviceSet& devices) {
  const std::string& on = absl::GetFlag(FLAGS_augment_on);
  RETURN_IF_ERROR(CheckChoice("augment_on", on, "places", {"auto", "host", "device"}));
  const bool mixes = absl::GetFlag(FLAGS_mixup) > 0, resident = absl::GetFlag(FLAGS_data_on_device);
  const bool on_host = mixes || absl::GetFlag(FLAGS_per_pixel_mean);
  if (on_host && (on == "device" || resident)) {
    return absl::InvalidArgumentError(
        absl::StrCat(resident ? "--data_on_device" : "--augment_on=device",
                     mixes ? " excludes --mixup, which mixes images on the host"
                           : " excludes --per_pixel_mean, which is subtracted on the host"));
  }
  if (resident && on == "host") {
    return absl::InvalidArgumentError("--data_on_device excludes --augment_on=host: the host has no images to augment");
  }
  if (resident) return data::AugmentBy::kStepFromResident;
  const auto is_gpu = [&](int device) { return devices.device(device).type() == "GPU"; };
  const bool automatic = on == "auto" && !on_host && absl::c_all_of(devices.TowerDevices(), is_gpu);
  return on == "device" || automatic ? data::AugmentBy::kStep : data::AugmentBy::kWorkers;
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

class Cifar10 final : public CifarProgram {
 public:
  // `recipe`: the value of --recipe on the command line, which has been expanded into its flags.
  explicit Cifar10(std::string recipe) : recipe_(std::move(recipe)) {}

  absl::Status CheckFlags() const override;
  absl::Status Configure(ProgramRun& run) override;
  std::vector<RunSetting> Settings(const ProgramRun& run) const override;

 private:
  std::string recipe_;
};

// Checks --recipe, which must be `expanded`, the recipe of the command line, and the flags that mostly recipes set:
// --epochs, --evaluate_views, and the rates of groups of variables.
absl::Status CheckRecipeFlags(absl::string_view expanded) {
  std::vector<absl::string_view> recipes;
  for (const Recipe& recipe : CifarRecipes()) recipes.push_back(recipe.name);
  if (const std::string recipe = absl::GetFlag(FLAGS_recipe); !recipe.empty()) {
    RETURN_IF_ERROR(CheckChoice("recipe", recipe, "recipes", recipes));
    if (recipe != expanded) {
      return absl::InvalidArgumentError(
          absl::StrCat("--recipe=", recipe, " must be on the command line, not in a flag file or in the environment"));
    }
  }
  for (const auto& [name, value] : {std::pair("norm_learning_rate", absl::GetFlag(FLAGS_norm_learning_rate)),
                                    std::pair("head_learning_rate", absl::GetFlag(FLAGS_head_learning_rate)),
                                    std::pair("epochs", absl::GetFlag(FLAGS_epochs))}) {
    RETURN_IF_ERROR(CheckAtLeast0(name, value));
  }
  if (const double epochs = absl::GetFlag(FLAGS_epochs); epochs > 0) {
    RETURN_IF_ERROR(RejectFlags({"steps"}, "a run with --epochs"));
    if (epochs > 1e6) return absl::InvalidArgumentError(absl::StrCat("--epochs=", epochs, " must be at most 1e6"));
  }
  RETURN_IF_ERROR(CheckBelow1("weight_decay", absl::GetFlag(FLAGS_weight_decay)));
  RETURN_IF_ERROR(CheckBelow1("lookahead_end", absl::GetFlag(FLAGS_lookahead_end)));
  const int64_t views = absl::GetFlag(FLAGS_evaluate_views);
  if (views == 1 || views == 2 || views == 6) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--evaluate_views=", views, " must be 1, 2 or 6"));
}

absl::Status Cifar10::CheckFlags() const {
  RETURN_IF_ERROR(CheckRecipeFlags(recipe_));
  RETURN_IF_ERROR(CheckLearningRate(absl::GetFlag(FLAGS_learning_rate)));
  const double momentum = absl::GetFlag(FLAGS_momentum);
  if (momentum != -1 && !(momentum >= 0 && momentum < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--momentum=", momentum, " must be at least 0 and below 1, or -1 for the model's default"));
  }
  RETURN_IF_ERROR(CheckOptimizerFlags());
  RETURN_IF_ERROR(CheckBelow1("label_smoothing", absl::GetFlag(FLAGS_label_smoothing)));
  if (const double mixup = absl::GetFlag(FLAGS_mixup); !(mixup >= 0 && mixup <= 1000)) {
    return absl::InvalidArgumentError(absl::StrCat("--mixup=", mixup, " must be from 0 to 1000"));
  }
  RETURN_IF_ERROR(CheckFlag("cutout", absl::GetFlag(FLAGS_cutout), 0, 24));
  RETURN_IF_ERROR(CheckBelow1("moving_average", absl::GetFlag(FLAGS_moving_average)));
  RETURN_IF_ERROR(ParseBucketSize(absl::GetFlag(FLAGS_bucket_size)).status());
  if (absl::GetFlag(FLAGS_variable_update) != "replicated") {
    RETURN_IF_ERROR(RejectFlags({"bucket_size"},
                                absl::StrCat("a run with --variable_update=", absl::GetFlag(FLAGS_variable_update))));
  }
  RETURN_IF_ERROR(CheckDType(absl::GetFlag(FLAGS_dtype)));
  RETURN_IF_ERROR(LossScaleFromFlags().status());
  return CheckChoice("schedule", absl::GetFlag(FLAGS_schedule), "schedules", Schedules());
}

// The rates of groups of variables, after the model and the optimizer.
absl::Status TakeGroupedRates(CifarOptions& options) {
  options.norm_learning_rate = absl::GetFlag(FLAGS_norm_learning_rate);
  options.head_learning_rate = absl::GetFlag(FLAGS_head_learning_rate);
  options.weight_decay = absl::GetFlag(FLAGS_weight_decay);
  options.lookahead_end = absl::GetFlag(FLAGS_lookahead_end);
  const std::string& optimizer = options.optimizer.name;
  if (!optimizer.empty() && optimizer != "momentum" && optimizer != "nesterov" && optimizer != "muon") {
    RETURN_IF_ERROR(RejectFlags({"norm_learning_rate", "head_learning_rate", "weight_decay"},
                                absl::StrCat("--optimizer=", optimizer)));
  }
  if (options.resnet_depth == 0 && !options.speedrun) {
    RETURN_IF_ERROR(RejectFlags({"norm_learning_rate", "head_learning_rate"}, absl::StrCat("--model=", options.model)));
  }
  if (options.resnet_depth == 0) {
    RETURN_IF_ERROR(RejectFlags({"per_pixel_mean"}, absl::StrCat("--model=", options.model)));
  }
  if (options.optimizer.lookahead == 0) RETURN_IF_ERROR(RejectFlags({"lookahead_end"}, "a run without --lookahead"));
  return absl::OkStatus();
}

absl::Status Cifar10::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(TakeEvaluationFlags(run));
  run.training.unit = "images";
  run.example = "training image";
  run.order.mixup = absl::GetFlag(FLAGS_mixup);
  run.order.drop_remainder = absl::GetFlag(FLAGS_drop_remainder);
  mixes_ = run.order.mixup > 0;
  ASSIGN_OR_RETURN(run.order.augment, AugmentFromFlags(run.devices));
  label_smoothing_ = absl::GetFlag(FLAGS_label_smoothing);
  run.replicate.moving_average = absl::GetFlag(FLAGS_moving_average);
  ASSIGN_OR_RETURN(run.replicate.loss_scale, LossScaleFromFlags());
  ASSIGN_OR_RETURN(run.replicate.batch_norm, models::ParseBatchNormPolicy(absl::GetFlag(FLAGS_batch_norm)));
  ASSIGN_OR_RETURN(const std::optional<size_t> bucket_size, ParseBucketSize(absl::GetFlag(FLAGS_bucket_size)));
  run.choose_buckets = !bucket_size.has_value();
  run.replicate.bucket_bytes = bucket_size.value_or(0);
  options_ = {.learning_rate = absl::GetFlag(FLAGS_learning_rate),
              .schedule = absl::GetFlag(FLAGS_schedule),
              .momentum = absl::GetFlag(FLAGS_momentum),
              .epochs = absl::GetFlag(FLAGS_epochs),
              .evaluate_views = absl::GetFlag(FLAGS_evaluate_views),
              .per_pixel_mean = absl::GetFlag(FLAGS_per_pixel_mean),
              .cutout = absl::GetFlag(FLAGS_cutout),
              .model = absl::GetFlag(FLAGS_model),
              .data_dir = absl::GetFlag(FLAGS_data_dir),
              .confusion = absl::GetFlag(FLAGS_confusion)};
  ASSIGN_OR_RETURN(options_.dtype, ParseDType(absl::GetFlag(FLAGS_dtype)));
  for (const int depth : {20, 32, 44, 56}) {
    if (options_.model == absl::StrFormat("resnet%d", depth)) options_.resnet_depth = depth;
  }
  ASSIGN_OR_RETURN(run.training.steps, Steps(generated() ? kGeneratedSteps : kCifarSteps));
  TakeOptimizerFlags("", options_.optimizer);
  const std::string& optimizer = options_.optimizer.name;
  if (optimizer == "descent" || absl::StartsWith(optimizer, "adam") || optimizer == "lamb") {
    RETURN_IF_ERROR(RejectFlags({"momentum"}, absl::StrCat("--optimizer=", optimizer)));
  }
  options_.unit_logits = options_.model == "record_net";
  options_.speedrun = options_.unit_logits || options_.model == "speedrun_net";
  // Its whitening is kept as the images have it.
  if (options_.speedrun) run.replicate.frozen.push_back("whiten/weights");
  RETURN_IF_ERROR(TakeGroupedRates(options_));
  const bool resnet = options_.resnet_depth > 0;
  if (options_.momentum < 0 && optimizer.empty()) options_.momentum = resnet ? 0.9 : 0;
  if (resnet || options_.speedrun || options_.model == "cifar_net") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("--model=%s is unknown; the models are cifar_net, resnet20, resnet32, resnet44, resnet56, "
                      "speedrun_net and record_net",
                      options_.model));
}

std::vector<RunSetting> Cifar10::Settings(const ProgramRun& run) const {
  const auto text = [](auto value) { return absl::StrCat(value); };
  std::vector<RunSetting> settings = {
      {"--model", options_.model, /*fixed=*/true},
      {"--momentum", text(options_.momentum), /*fixed=*/true},
      {"--moving_average", text(absl::GetFlag(FLAGS_moving_average)), /*fixed=*/true},
      {"--loss_scale", LossScaleText(), /*fixed=*/true},
      {"--batch_size", text(run.order.batch_size), /*fixed=*/true},
      {"--seed", text(run.order.seed), /*fixed=*/true},
      {"--steps", text(run.training.steps)},
      {"--learning_rate", text(absl::GetFlag(FLAGS_learning_rate))},
      {"--schedule", absl::GetFlag(FLAGS_schedule)},
      {"--label_smoothing", text(label_smoothing_)},
      {"--cutout", text(options_.cutout)},
      {"--mixup", text(run.order.mixup)},
      {"--dtype", absl::GetFlag(FLAGS_dtype)},
      {"--drop_remainder", run.order.drop_remainder ? "true" : "false", /*fixed=*/true, /*unrecorded=*/"false"},
      {"--norm_learning_rate", text(options_.norm_learning_rate), /*fixed=*/false, /*unrecorded=*/"0"},
      {"--head_learning_rate", text(options_.head_learning_rate), /*fixed=*/false, /*unrecorded=*/"0"},
      {"--weight_decay", text(options_.weight_decay), /*fixed=*/false, /*unrecorded=*/"0"},
      {"--lookahead_end", text(options_.lookahead_end), /*fixed=*/false, /*unrecorded=*/"0"},
      {"--evaluate_views", text(options_.evaluate_views), /*fixed=*/false, /*unrecorded=*/"1"},
      {"--per_pixel_mean", options_.per_pixel_mean ? "true" : "false", /*fixed=*/false, /*unrecorded=*/"false"},
  };
  for (const RunSetting& setting : OptimizerSettings()) settings.push_back(setting);
  if (options_.resnet_depth > 0 || options_.speedrun) {
    const std::string batch_norm = absl::GetFlag(FLAGS_batch_norm);
    settings.push_back({"--batch_norm", batch_norm});
    // Statistics of a tower are those of its share of the batch.
    settings.push_back({"towers", batch_norm == "per_tower" ? text(run.order.towers) : "any"});
  }
  return settings;
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  const std::vector<std::string> given(argv, argv + argc);
  std::vector<std::string> arguments = ExpandRecipe(given, CifarRecipes());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  Cifar10 program{std::string(RecipeName(given))};
  return TrainingMain(static_cast<int>(arguments.size()), pointers.data(), kUsage, program);
}
