// Trains a network on CIFAR-10, or on a generated set in the same format, with a tower, or several, on each device.
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "trainers/cifar_program.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/model_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/recipes/recipes.h"

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

class Cifar10 final : public CifarProgram {
 public:
  explicit Cifar10(Flags& flags);
  ProgramFlags& flags() { return flags_; }

  absl::Status CheckFlags() const override;
  absl::Status Configure(ProgramRun& run) override;
  std::vector<RunSetting> Settings(const ProgramRun& run) const override;

 private:
  absl::StatusOr<data::AugmentBy> Augment(const DeviceSet& devices) const;
  void AddTraining(Flags& flags);
  void AddData(Flags& flags);
  absl::Status TakeModel(ProgramRun& run);
  absl::Status CheckRates() const;

  ProgramFlags flags_;
  EvaluationFlags evaluation_;
  PrecisionFlags precision_;
  double moving_average_ = 0, mixup_ = 0;
  bool drop_remainder_ = false, data_on_device_ = false;
  std::string batch_norm_ = "per_tower", augment_on_ = "auto", bucket_size_ = {};
};

Cifar10::Cifar10(Flags& flags) : flags_(flags), evaluation_(flags), precision_(flags, /*fixed=*/true) {
  flags.Section("Model and optimizer");
  flags.AddRecipes(CifarRecipes(),
                   "A published training: the flags below that it sets, which flags on the command line replace. "
                   "speedrun: airbench94_compiled (Jordan, 2024), 9.9 epochs. record: airbench94_muon, 8 epochs. "
                   "resnet: ResNet-20 as in He et al., 2016, section 4.2, 64,000 steps. Empty: none.");
  AddModel(flags, options_.model,
           OneOf("models", {"cifar_net", "resnet20", "resnet32", "resnet44", "resnet56", "speedrun_net", "record_net"})
               .Fixed(),
           "cifar_net: the network of TensorFlow's CIFAR-10 tutorial, 1,068,298 parameters. resnet20, resnet32, "
           "resnet44, resnet56: the networks of He et al., 2016, section 4.2. speedrun_net, record_net: those of "
           "--recipe=speedrun and record, which differ in the scale of the logits; the weights of the first layer come "
           "from the first 5,000 images.");
  AddTraining(flags);
  AddData(flags);
}

void Cifar10::AddTraining(Flags& flags) {
  AddSchedule(flags, options_.schedule);
  AddOptimizer(flags, options_.optimizer);
  flags.Add("momentum", &options_.momentum, Below1().Or(-1).Fixed(),
            "Momentum; 0: plain gradient descent; -1: 0 for cifar_net and 0.9 for a ResNet.");
  flags.Add("norm_learning_rate", &options_.norm_learning_rate, Range(0).Recorded("0"),
            "Peak learning rate of the offsets of batch normalisation and, with --optimizer=muon, of every variable "
            "that is not a matrix, which then takes Nesterov's momentum. 0: --learning_rate.");
  flags.Add("head_learning_rate", &options_.head_learning_rate, Range(0).Recorded("0"),
            "Peak learning rate of the last layer of a ResNet or speedrun_net. 0: --learning_rate.");
  flags.Add("weight_decay_per_step", &options_.weight_decay_per_step, Below1().Recorded("0"),
            "Share of a variable that a step at its peak learning rate takes away, whatever that rate is, in addition "
            "to the weight decay that the networks of papers have. Variables that Muon updates have none.");
  flags.Add("lookahead_end", &options_.lookahead_end, Below1().Recorded("0"),
            "Share of the way that the slow weights of --lookahead go at the last step, falling from all of it with "
            "the cube of the steps. 0: half of the way throughout.");
  AddLabelSmoothing(flags, label_smoothing_);
  AddMovingAverage(flags, moving_average_);
  AddBatchNorm(flags, batch_norm_);
  flags.Add("bucket_size", &bucket_size_,
            "Bytes of gradients to average together: 65536, 512K, 4M. Empty: 1M for towers on CPUs, 25M for towers on "
            "GPUs. The result does not depend on it, except with --averager=nccl.");
}

void Cifar10::AddData(Flags& flags) {
  flags.Section("Data");
  AddDataDir(flags, options_.data_dir,
             "Directory with CIFAR-10's binary files. Empty or 'generated': a generated set of textured shapes.");
  flags.Add("epochs", &options_.epochs, Range(0, 1e6),
            "Passes over the training data, instead of --steps: 9.9. With --lookahead the steps are rounded down to a "
            "multiple of it. 0: --steps.");
  flags.Add("drop_remainder", &drop_remainder_, Fixed("false"), "Leave out the last, smaller batch of each epoch.");
  AddCutout(flags, options_.cutout, 24);
  AddMixup(flags, mixup_);
  flags.Add("per_pixel_mean", &options_.per_pixel_mean, Recorded("false"),
            "Subtract the mean of each pixel from the images of a ResNet, as in the paper, instead of normalising "
            "their channels. On the host.");
  flags.Add("evaluate_views", &options_.evaluate_views, Range(1, 6).Recorded("1"),
            "Views of each test image over which the logits are averaged. 2: the image and its mirror image. 6: both "
            "also moved by a pixel up and left, and down and right.");
  flags.Add("augment_on", &augment_on_, OneOf("places", {"auto", "host", "device"}),
            "Who crops, flips and normalises the training images. host: the threads that make batches. device: the "
            "step, on each tower's device, which is fed the images' bytes. auto: device for GPUs, except with --mixup; "
            "host for CPUs. Random numbers are the same, and results differ by rounding at most.");
  flags.Add("data_on_device", &data_on_device_,
            "Keep all training images in the memory of each device, and feed steps labels and positions only. CIFAR-10 "
            "takes 154 MB of each GPU, as much again for the smaller batch at the end of an epoch, and as much of the "
            "host's memory.");
  flags.Add("confusion", &options_.confusion, "Print the confusion matrix of the classes at the end.");
}

// --augment_on and --data_on_device.
absl::StatusOr<data::AugmentBy> Cifar10::Augment(const DeviceSet& devices) const {
  const std::string& on = augment_on_;
  const bool mixes = mixup_ > 0, resident = data_on_device_;
  const bool on_host = mixes || options_.per_pixel_mean;
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

absl::Status Cifar10::CheckFlags() const {
  if (flags_.all.IsSet("epochs")) RETURN_IF_ERROR(flags_.all.Reject({"steps"}, "a run with --epochs"));
  if (const int64_t views = options_.evaluate_views; views != 1 && views != 2 && views != 6) {
    return absl::InvalidArgumentError(absl::StrCat("--evaluate_views=", views, " must be 1, 2 or 6"));
  }
  RETURN_IF_ERROR(ParseBytes("bucket_size", bucket_size_).status());
  if (flags_.variable_update != "replicated") {
    RETURN_IF_ERROR(
        flags_.all.Reject({"bucket_size"}, absl::StrCat("a run with --variable_update=", flags_.variable_update)));
  }
  return CheckRates();
}

// The rates of groups of variables, which not every model and optimizer has.
absl::Status Cifar10::CheckRates() const {
  const std::string &optimizer = options_.optimizer.name, &model = options_.model;
  const std::string by_optimizer = absl::StrCat("--optimizer=", optimizer), of_model = absl::StrCat("--model=", model);
  if (optimizer == "descent" || absl::StartsWith(optimizer, "adam") || optimizer == "lamb") {
    RETURN_IF_ERROR(flags_.all.Reject({"momentum"}, by_optimizer));
  }
  if (optimizer != "default" && optimizer != "momentum" && optimizer != "nesterov" && optimizer != "muon") {
    RETURN_IF_ERROR(
        flags_.all.Reject({"norm_learning_rate", "head_learning_rate", "weight_decay_per_step"}, by_optimizer));
  }
  if (model == "cifar_net") {
    RETURN_IF_ERROR(flags_.all.Reject({"norm_learning_rate", "head_learning_rate"}, of_model));
  }
  if (!absl::StartsWith(model, "resnet")) RETURN_IF_ERROR(flags_.all.Reject({"per_pixel_mean"}, of_model));
  if (options_.optimizer.lookahead > 0) return absl::OkStatus();
  return flags_.all.Reject({"lookahead_end"}, "a run without --lookahead");
}

// The network of --model, and what depends on it.
absl::Status Cifar10::TakeModel(ProgramRun& run) {
  for (const int depth : {20, 32, 44, 56}) {
    if (options_.model == absl::StrFormat("resnet%d", depth)) options_.resnet_depth = depth;
  }
  options_.unit_logits = options_.model == "record_net";
  options_.speedrun = options_.unit_logits || options_.model == "speedrun_net";
  // Its whitening is kept as the images have it.
  if (options_.speedrun) run.replicate.frozen.push_back("whiten/weights");
  if (options_.momentum < 0 && options_.optimizer.name == "default") {
    options_.momentum = options_.resnet_depth > 0 ? 0.9 : 0;
  }
  ASSIGN_OR_RETURN(options_.dtype, precision_.Take(run.replicate));
  return absl::OkStatus();
}

absl::Status Cifar10::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(evaluation_.Take(run));
  run.training.unit = "images";
  run.example = "training image";
  run.order.mixup = mixup_;
  run.order.drop_remainder = drop_remainder_;
  mixes_ = mixup_ > 0;
  ASSIGN_OR_RETURN(run.order.augment, Augment(run.devices));
  run.replicate.moving_average = moving_average_;
  ASSIGN_OR_RETURN(run.replicate.batch_norm, models::ParseBatchNormPolicy(batch_norm_));
  ASSIGN_OR_RETURN(run.replicate.bucket_bytes, ParseBytes("bucket_size", bucket_size_));
  run.training.steps = flags_.StepsOr(generated() ? kGeneratedSteps : kCifarSteps);
  // --steps on the command line overrides the epochs of a recipe.
  if (flags_.all.IsSet("steps")) options_.epochs = 0;
  return TakeModel(run);
}

std::vector<RunSetting> Cifar10::Settings(const ProgramRun& run) const {
  if (options_.resnet_depth == 0 && !options_.speedrun) return {};
  // Statistics of a tower are those of its share of the batch.
  return {{"towers", batch_norm_ == "per_tower" ? absl::StrCat(run.order.towers) : "any"}};
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  Cifar10 program(flags);
  return TrainingMain(argc, argv, kUsage, program.flags(), program);
}
