#include "trainers/flags/model_flags.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "optim/loss_scale.h"

namespace belfry::trainers {

void AddModel(Flags& flags, std::string& model, const FlagRule& rule, absl::string_view meaning) {
  flags.Add("model", &model, rule, meaning);
}

void AddDataDir(Flags& flags, std::string& data_dir, absl::string_view what) {
  flags.Add("data_dir", &data_dir, PerTask().Files(FileUse::kReads), what);
}

void AddPredict(Flags& flags, std::vector<std::string>& predict, absl::string_view what) {
  flags.Add("predict", &predict, Reads(), what);
}

void AddOutput(Flags& flags, std::string& output) { flags.Add("output", &output, Writes(), "The file to write."); }

void AddTarget(Flags& flags, std::string& target) {
  flags.Add("target", &target, "Column to predict, by name or by number from 0. Empty: the last one.");
}

void AddCsvLimit(Flags& flags, int64_t& bytes) {
  flags.Add("csv_limit", &bytes, Range(1),
            "Largest size of a CSV file in bytes; memory must hold several times as much.");
}

void AddValidationFraction(Flags& flags, double& fraction, const FlagRule& rule) {
  flags.Add("validation_fraction", &fraction, rule,
            "Share of the data, drawn by --seed, to evaluate on where there are none for that. 0: none is held out.");
}

void AddLearningRate(Flags& flags, double& peak) {
  flags.Add("learning_rate", &peak, Above(0).Recorded(), "Learning rate, at its peak.");
}

void AddSchedule(Flags& flags, ScheduleChoice& schedule) {
  AddLearningRate(flags, schedule.learning_rate);
  flags.Add("schedule", &schedule.name, OneOf("schedules", ScheduleNames()).Recorded(),
            "Learning rate over the steps. cosine: half a cosine, down to --schedule_end. linear: down to that. "
            "constant. step_decay: times 0.1 at one half and at three quarters of the steps. triangle: up from 0.2 of "
            "the rate to all of it at 23 % of the steps, and down to 0.07. staircase: times 0.1 every 350 epochs, as "
            "in TensorFlow's CIFAR-10 tutorial.");
  flags.Add("schedule_end", &schedule.end, Range(0, 1).Recorded(absl::StrCat(schedule.end)),
            "Share of the peak at which --schedule=cosine and linear end.");
  flags.Add("warmup_steps", &schedule.warmup_steps, Range(0).Recorded(absl::StrCat(schedule.warmup_steps)),
            "Steps over which the learning rate rises from 0 to its schedule.");
}

void AddOptimizer(Flags& flags, OptimizerChoice& choice) {
  choice.name = "default";
  flags.Add("optimizer", &choice.name, OneOf("optimizers", OptimizerNames()).Fixed("default"),
            "descent, momentum, nesterov, adam, adamw, lars, lamb, or muon: Muon for the matrices of hidden layers and "
            "AdamW for the rest. default: the program's, which the default --learning_rate is for; 0.001 suits adam, "
            "adamw and muon.");
  flags.Add("lookahead", &choice.lookahead, Range(0, 1e6).Fixed("0"),
            "Lookahead (Zhang et al., 2019): after every N updates slow weights go half of the way to the weights, "
            "which go on from there; 0: none.");
}

void AddWeightDecay(Flags& flags, double& weight_decay) {
  flags.Add("weight_decay", &weight_decay, Range(0).Recorded(),
            "Weight decay of weights. adamw, lamb and muon take it times the learning rate from the weight; the other "
            "optimizers add it times the weight to the gradient.");
}

void AddDropout(Flags& flags, double& rate) {
  flags.Add("dropout", &rate, Below1().Recorded(),
            "Rate of dropout after each block of the network (an embedding or a hidden layer, too).");
}

void AddLabelSmoothing(Flags& flags, double& share) {
  flags.Add("label_smoothing", &share, Below1().Recorded(),
            "Share of the target that is spread evenly over the classes, of the training loss: 0.1 is usual; 0: none.");
}

void AddMixup(Flags& flags, double& alpha) {
  flags.Add("mixup", &alpha, Range(0, 1000).Recorded(),
            "Train on mixtures of two images and of their labels, with weights from Beta(mixup, mixup): 0.2 is usual; "
            "0: none.");
}

void AddCutout(Flags& flags, int64_t& edge, int64_t largest) {
  flags.Add("cutout", &edge, Range(0, static_cast<double>(largest)).Recorded(),
            "Edge in pixels of a square that is blanked at a random place of each training image; 0: none.");
}

void AddMovingAverage(Flags& flags, double& decay) {
  flags.Add("moving_average", &decay, Below1().Fixed(),
            "Decay of an exponential moving average of the weights, which evaluation then uses: 0.9999 is usual. 0: no "
            "average.");
}

void AddBatchNorm(Flags& flags, std::string& policy) {
  flags.Add("batch_norm", &policy, OneOf("statistics", {"per_tower", "synchronised"}).Recorded("per_tower"),
            "Images over which batch normalisation takes its statistics. per_tower: those of each tower, with the "
            "moving averages of tower 0. synchronised: those of all towers, so that N towers train as one.");
}

PrecisionFlags::PrecisionFlags(Flags& flags, bool fixed) {
  flags.Add("dtype", &dtype, OneOf("types", {"float32", "bfloat16", "float16"}).Recorded(),
            "Type in which the network computes: float32, bfloat16 or float16. Weights, averages and updates are "
            "float32 in any case.");
  flags.Add(
      "loss_scale", &loss_scale, fixed ? Fixed() : Recorded(),
      "Factor on the loss, so that gradients do not vanish in float16; gradients are divided by it before they are "
      "used. dynamic: starts at 32768, doubles after 2000 good steps, and halves when a gradient overflows, which "
      "skips the step. A number: that constant factor. none: no scaling. Empty: dynamic for float16, none otherwise.");
}

absl::StatusOr<DType> PrecisionFlags::Take(models::ReplicateOptions& replicate) {
  if (loss_scale.empty()) loss_scale = dtype == "float16" ? "dynamic" : "none";
  auto scale = optim::ParseLossScale(loss_scale);
  if (!scale.ok()) return absl::InvalidArgumentError(absl::StrCat("--loss_scale: ", scale.status().message()));
  replicate.loss_scale = *scale;
  return ParseDType(dtype);
}

}  // namespace belfry::trainers
