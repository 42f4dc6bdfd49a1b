// Trains a network for pictures on folders of PNG and JPEG files, with a tower or several on each device.
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/optimizer_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/flags/run_flags.h"
#include "trainers/picture_program.h"

ABSL_FLAG(std::string, data_dir, "",
          "Folder with a folder of pictures for each class; or with such folders 'train', and 'val' or 'test', in it. "
          "Empty: a generated set of 1,800 JPEG files.");
ABSL_FLAG(std::string, model, "resnet18",
          "resnet18, resnet34, resnet50, resnet101, resnet152, resnet50_v2, resnet101_v2, resnet152_v2, inception_v3, "
          "vgg16, alexnet, mobilenet_v2, efficientnet_b0 or vit_s16.");
ABSL_FLAG(int64_t, size, 0, "Height and width to which pictures are brought; 0: 224, or 64 for the generated set.");
ABSL_FLAG(double, validation_fraction, 0.1,
          "Part of --data_dir, drawn by --seed, to evaluate on, if it has no folder for that. 0: none is held out.");
ABSL_FLAG(double, smallest_area, 0.08,
          "Training pictures are random parts of this share of the whole, or more; 1: the middle of each.");
ABSL_FLAG(double, central, 0.875, "Share of the middle of a picture that evaluations look at.");
ABSL_FLAG(double, colour_jitter, 0, "Range of random changes of brightness, contrast and saturation, from 0 to 1.");
ABSL_FLAG(double, hue_jitter, 0, "Range of random turns of the hue, as a share of the circle of colours, up to 0.5.");
ABSL_FLAG(double, rotation, 0,
          "Degrees by which training pictures are turned at random in either direction, up to 180.");
ABSL_FLAG(int64_t, cutout, 0,
          "Edge in pixels of a square that is set to the mean at a random place of each training picture; 0: none.");
ABSL_FLAG(int64_t, picture_cache, 0,
          "MiB for decoded pictures of each process, which later passes then need not decode again; 0: none are kept. "
          "JPEGs are then decoded whole, not at a part of their size, which changes pixels a little.");
ABSL_FLAG(std::string, picture_cache_folder, "",
          "Folder on a fast disk for that cache, in a file that ends with the run. Empty: memory.");
ABSL_FLAG(bool, skip_broken, false,
          "Decode all files once at the start, and leave out those that are broken. Otherwise one ends the run.");
ABSL_FLAG(std::string, dtype, "float32",
          "Type in which the network computes: float32, bfloat16 or float16. Weights and updates are float32 in any "
          "case.");
ABSL_FLAG(double, learning_rate, 0.05, "Peak learning rate.");
ABSL_FLAG(std::string, schedule, "cosine",
          "Learning rate over the steps. cosine: half a cosine, down to 0 at --steps. constant.");
ABSL_FLAG(int64_t, warmup_steps, 0, "Steps over which the learning rate rises from 0.");
ABSL_FLAG(double, weight_decay, 5e-5, "Weight decay of weights.");
ABSL_FLAG(double, moving_average, 0,
          "Decay of an exponential moving average of the weights, which evaluation then uses. 0: no average.");
ABSL_FLAG(double, label_smoothing, 0,
          "Share of the target that is spread evenly over the classes, of the training loss: 0.1 is usual; 0: none.");
ABSL_FLAG(double, mixup, 0,
          "Train on mixtures of two pictures and of their labels, with weights from Beta(mixup, mixup): 0.2 is usual; "
          "0: none.");
ABSL_FLAG(std::string, batch_norm, "per_tower",
          "Pictures over which batch normalisation takes its statistics. per_tower: those of each tower. synchronised: "
          "those of all towers, so that N towers train as one.");
ABSL_FLAG(std::vector<std::string>, predict, {},
          "Picture files, with commas between and none in their names, whose classes are printed at the end of the "
          "run.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(Trains a network for pictures, with a tower or several on each device.

  image_classifier --devices=cpu:2                                 generated pictures of ten classes
  image_classifier --devices=cpu:2 --data_dir=DIR --model=resnet50
  image_classifier --data_dir=DIR --train_dir=run --predict=a.jpg,b.png

DIR has a folder for each class, with PNG and JPEG files of any size in it. Each picture of a training batch is a random
part of its file, mirrored or not; evaluations look at the middle. The default is 30 passes over the training pictures.
Weights of an earlier run, or of another classifier with the same network, are taken with --init_from=FILE. --export=FILE
saves the model at the end, for programs without training.)";

constexpr int64_t kPasses = 30;

class ImageClassifier final : public PictureProgram {
 public:
  absl::Status CheckFlags() const override;
  absl::Status Configure(ProgramRun& run) override;
  absl::Status OpenData(ProgramRun& run) override;
};

absl::Status CheckShare(absl::string_view flag, double value, double least) {
  if (value >= least && value <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", value, " must be from ", least, " to 1"));
}

absl::Status ImageClassifier::CheckFlags() const {
  std::vector<absl::string_view> models;
  for (const models::PictureNetwork& network : models::PictureNetworks()) models.push_back(network.name);
  RETURN_IF_ERROR(CheckChoice("model", absl::GetFlag(FLAGS_model), "models", models));
  RETURN_IF_ERROR(CheckChoice("schedule", absl::GetFlag(FLAGS_schedule), "schedules", {"cosine", "constant"}));
  RETURN_IF_ERROR(CheckDType(absl::GetFlag(FLAGS_dtype)));
  const models::PictureNetwork& network = *models::FindPictureNetwork(absl::GetFlag(FLAGS_model));
  if (const int64_t size = absl::GetFlag(FLAGS_size); size != 0) {
    RETURN_IF_ERROR(CheckFlag("size", size, network.smallest, 4096));
    if (size % network.multiple != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--size=", size, " must be a multiple of ", network.multiple, " for ", network.name));
    }
  }
  RETURN_IF_ERROR(CheckFlag("warmup_steps", absl::GetFlag(FLAGS_warmup_steps), 0, int64_t{1} << 40));
  RETURN_IF_ERROR(CheckShare("smallest_area", absl::GetFlag(FLAGS_smallest_area), 0.01));
  RETURN_IF_ERROR(CheckShare("central", absl::GetFlag(FLAGS_central), 0.1));
  RETURN_IF_ERROR(CheckShare("colour_jitter", absl::GetFlag(FLAGS_colour_jitter), 0));
  RETURN_IF_ERROR(CheckFlag("cutout", absl::GetFlag(FLAGS_cutout), 0, 4096));
  RETURN_IF_ERROR(CheckFlag("picture_cache", absl::GetFlag(FLAGS_picture_cache), 0, int64_t{1} << 30));
  if (!absl::GetFlag(FLAGS_picture_cache_folder).empty() && absl::GetFlag(FLAGS_picture_cache) == 0) {
    return absl::InvalidArgumentError("--picture_cache_folder needs --picture_cache");
  }
  if (const double hue = absl::GetFlag(FLAGS_hue_jitter); !(hue >= 0 && hue <= 0.5)) {
    return absl::InvalidArgumentError(absl::StrCat("--hue_jitter=", hue, " must be from 0 to 0.5"));
  }
  if (const double degrees = absl::GetFlag(FLAGS_rotation); !(degrees >= 0 && degrees <= 180)) {
    return absl::InvalidArgumentError(absl::StrCat("--rotation=", degrees, " must be from 0 to 180"));
  }
  RETURN_IF_ERROR(CheckBelow1("validation_fraction", absl::GetFlag(FLAGS_validation_fraction)));
  RETURN_IF_ERROR(CheckBelow1("label_smoothing", absl::GetFlag(FLAGS_label_smoothing)));
  RETURN_IF_ERROR(CheckBelow1("moving_average", absl::GetFlag(FLAGS_moving_average)));
  RETURN_IF_ERROR(CheckAtLeast0("weight_decay", absl::GetFlag(FLAGS_weight_decay)));
  if (const double mixup = absl::GetFlag(FLAGS_mixup); !(mixup >= 0 && mixup <= 1000)) {
    return absl::InvalidArgumentError(absl::StrCat("--mixup=", mixup, " must be from 0 to 1000"));
  }
  RETURN_IF_ERROR(CheckOptimizerFlags());
  return CheckLearningRate(absl::GetFlag(FLAGS_learning_rate));
}

absl::Status ImageClassifier::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(TakeEvaluationFlags(run));
  run.training.unit = "images";
  run.example = "training picture";
  run.order.mixup = absl::GetFlag(FLAGS_mixup);
  mixes_ = run.order.mixup > 0;
  label_smoothing_ = absl::GetFlag(FLAGS_label_smoothing);
  run.replicate.moving_average = absl::GetFlag(FLAGS_moving_average);
  ASSIGN_OR_RETURN(run.replicate.batch_norm, models::ParseBatchNormPolicy(absl::GetFlag(FLAGS_batch_norm)));
  const double jitter = absl::GetFlag(FLAGS_colour_jitter), smallest = absl::GetFlag(FLAGS_smallest_area);
  options_ = {.model = absl::GetFlag(FLAGS_model),
              .size = absl::GetFlag(FLAGS_size),
              .data_dir = absl::GetFlag(FLAGS_data_dir),
              .validation_fraction = absl::GetFlag(FLAGS_validation_fraction),
              .pictures = {.rotation = absl::GetFlag(FLAGS_rotation),
                           .jitter = {.brightness = jitter,
                                      .contrast = jitter,
                                      .saturation = jitter,
                                      .hue = absl::GetFlag(FLAGS_hue_jitter)},
                           .cache = {.bytes = absl::GetFlag(FLAGS_picture_cache) << 20,
                                     .folder = absl::GetFlag(FLAGS_picture_cache_folder)},
                           .skip_broken = absl::GetFlag(FLAGS_skip_broken)},
              .cutout = absl::GetFlag(FLAGS_cutout),
              .central = absl::GetFlag(FLAGS_central),
              .learning_rate = absl::GetFlag(FLAGS_learning_rate),
              .schedule = absl::GetFlag(FLAGS_schedule),
              .warmup_steps = absl::GetFlag(FLAGS_warmup_steps),
              .weight_decay = absl::GetFlag(FLAGS_weight_decay),
              .predict = absl::GetFlag(FLAGS_predict)};
  if (smallest < 1) options_.pictures.random_crop = data::RandomResizedCrop{.min_area = smallest};
  ASSIGN_OR_RETURN(options_.dtype, ParseDType(absl::GetFlag(FLAGS_dtype)));
  TakeOptimizerFlags("momentum", options_.optimizer);
  return absl::OkStatus();
}

absl::Status ImageClassifier::OpenData(ProgramRun& run) {
  RETURN_IF_ERROR(PictureProgram::OpenData(run));
  const int64_t batch = run.order.batch_size;
  ASSIGN_OR_RETURN(run.training.steps, Steps((kPasses * run.train->size() + batch - 1) / batch));
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  ImageClassifier program;
  return TrainingMain(argc, argv, kUsage, program);
}
