// Trains a network for pictures on folders of PNG and JPEG files, with a tower or several on each device.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/model_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/picture_program.h"

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
  explicit ImageClassifier(Flags& flags);
  ProgramFlags& flags() { return flags_; }

  absl::Status CheckFlags() const override;
  absl::Status Configure(ProgramRun& run) override;
  absl::Status OpenData(ProgramRun& run) override;

 private:
  void AddTraining(Flags& flags);
  void AddData(Flags& flags);

  ProgramFlags flags_;
  EvaluationFlags evaluation_;
  PrecisionFlags precision_;
  double moving_average_ = 0, mixup_ = 0, smallest_area_ = 0.08, colour_jitter_ = 0;
  int64_t picture_cache_ = 0;  // MiB
  std::string batch_norm_ = "per_tower";
};

ImageClassifier::ImageClassifier(Flags& flags) : flags_(flags), evaluation_(flags), precision_(flags) {
  options_.schedule.learning_rate = 0.05;
  AddTraining(flags);
  AddData(flags);
}

void ImageClassifier::AddTraining(Flags& flags) {
  std::vector<absl::string_view> models;
  for (const models::PictureNetwork& network : models::PictureNetworks()) models.push_back(network.name);
  flags.Section("Model and optimizer");
  AddModel(flags, options_.model, OneOf("models", models).Fixed(), "The network.");
  flags.Add("size", &options_.size, Range(0, 4096).Fixed(),
            "Height and width to which pictures are brought; 0: 224, or 64 for the generated set.");
  AddSchedule(flags, options_.schedule);
  AddOptimizer(flags, options_.optimizer);
  AddWeightDecay(flags, options_.weight_decay);
  AddLabelSmoothing(flags, label_smoothing_);
  AddMovingAverage(flags, moving_average_);
  AddBatchNorm(flags, batch_norm_);
}

void ImageClassifier::AddData(Flags& flags) {
  data::PictureOptions& pictures = options_.pictures;
  flags.Section("Pictures");
  AddDataDir(flags, options_.data_dir,
             "Folder with a folder of pictures for each class; or with such folders 'train', and 'val' or 'test', in "
             "it. Empty: a generated set of 1,800 JPEG files.");
  AddValidationFraction(flags, options_.validation_fraction, Below1().Fixed());
  flags.Add("smallest_area", &smallest_area_, Range(0.01, 1).Recorded(),
            "Training pictures are random parts of this share of the whole, or more; 1: the middle of each.");
  flags.Add("central", &options_.central, Range(0.1, 1), "Share of the middle of a picture that evaluations look at.");
  flags.Add("colour_jitter", &colour_jitter_, Range(0, 1).Recorded(),
            "Range of random changes of brightness, contrast and saturation, from 0 to 1.");
  flags.Add("hue_jitter", &pictures.jitter.hue, Range(0, 0.5).Recorded(),
            "Range of random turns of the hue, as a share of the circle of colours, up to 0.5.");
  flags.Add("rotation", &pictures.rotation, Range(0, 180).Recorded(),
            "Degrees by which training pictures are turned at random in either direction, up to 180.");
  AddCutout(flags, options_.cutout, 4096);
  AddMixup(flags, mixup_);
  flags.Add("picture_cache", &picture_cache_, Range(0, 1 << 30),
            "MiB for decoded pictures of each process, which later passes then need not decode again; 0: none are "
            "kept. JPEGs are then decoded whole, not at a part of their size, which changes pixels a little.");
  flags.Add("picture_cache_folder", &pictures.cache.folder,
            "Folder on a fast disk for that cache, in a file that ends with the run. Empty: memory.");
  flags.Add("skip_broken", &pictures.skip_broken,
            "Decode all files once at the start, and leave out those that are broken. Otherwise one ends the run.");
  AddPredict(
      flags, options_.predict,
      "Picture files, with commas between and none in their names, whose classes are printed at the end of the run.");
}

absl::Status ImageClassifier::CheckFlags() const {
  const models::PictureNetwork& network = *models::FindPictureNetwork(options_.model);
  if (const int64_t size = options_.size; size != 0 && size < network.smallest) {
    return absl::InvalidArgumentError(
        absl::StrCat("--size=", size, " must be ", network.smallest, " to 4096 for ", network.name));
  }
  if (options_.size % network.multiple != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--size=", options_.size, " must be a multiple of ", network.multiple, " for ", network.name));
  }
  if (options_.pictures.cache.folder.empty() || picture_cache_ > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("--picture_cache_folder needs --picture_cache");
}

absl::Status ImageClassifier::Configure(ProgramRun& run) {
  RETURN_IF_ERROR(evaluation_.Take(run));
  run.training.unit = "images";
  run.example = "training picture";
  run.order.mixup = mixup_;
  mixes_ = mixup_ > 0;
  run.replicate.moving_average = moving_average_;
  ASSIGN_OR_RETURN(run.replicate.batch_norm, models::ParseBatchNormPolicy(batch_norm_));
  data::PictureOptions& pictures = options_.pictures;
  pictures.jitter.brightness = pictures.jitter.contrast = pictures.jitter.saturation = colour_jitter_;
  pictures.cache.bytes = picture_cache_ << 20;
  if (smallest_area_ < 1) pictures.random_crop = data::RandomResizedCrop{.min_area = smallest_area_};
  ASSIGN_OR_RETURN(options_.dtype, precision_.Take(run.replicate));
  if (options_.optimizer.name == "default") options_.optimizer.name = "momentum";
  return absl::OkStatus();
}

absl::Status ImageClassifier::OpenData(ProgramRun& run) {
  RETURN_IF_ERROR(PictureProgram::OpenData(run));
  const int64_t batch = run.order.batch_size;
  run.training.steps = flags_.StepsOr((kPasses * run.train->size() + batch - 1) / batch);
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  ImageClassifier program(flags);
  return TrainingMain(argc, argv, kUsage, program.flags(), program);
}
