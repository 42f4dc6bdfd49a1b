// Trains a network for pictures on folders of PNG and JPEG files, with a tower or several on each device.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "trainers/datasets/picture_set.h"
#include "trainers/pictures/picture_program.h"

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

constexpr int64_t kPasses = 30, kGeneratedSize = 64;

class ImageClassifier final : public PictureProgram {
 public:
  explicit ImageClassifier(Flags& flags) : PictureProgram(flags) {
    model_ = "resnet18";
    recipe_.schedule.learning_rate = 0.05;
    data::PictureOptions& pictures = folders_.pictures;
    std::vector<absl::string_view> models;
    for (const models::PictureNetwork& network : models::PictureNetworks()) models.push_back(network.name);
    flags.Section("Model and optimizer");
    AddModel(flags, model_, OneOf("models", models).Fixed(), "The network.");
    flags.Add("size", &pictures.height, Range(0, 4096).Fixed(),
              "Height and width to which pictures are brought; 0: 224, or 64 for the generated set.");
    AddSchedule(flags, recipe_.schedule);
    AddOptimizer(flags, recipe_.optimizer);
    AddWeightDecay(flags, weight_decay_);
    AddLabelSmoothing(flags, label_smoothing_);
    AddMovingAverage(flags, moving_average_);
    AddBatchNorm(flags, batch_norm_);
    flags.Section("Pictures");
    AddDataDir(flags, data_dir_,
               "Folder with a folder of pictures for each class; or with such folders 'train', and 'val' or 'test', in "
               "it. Empty: a generated set of 1,800 JPEG files.");
    AddValidationFraction(flags, folders_.validation_fraction, Below1().Fixed());
    flags.Add("smallest_area", &smallest_area_, Range(0.01, 1).Recorded(),
              "Training pictures are random parts of this share of the whole, or more; 1: the middle of each.");
    flags.Add("central", &folders_.central, Range(0.1, 1),
              "Share of the middle of a picture that evaluations look at.");
    flags.Add("colour_jitter", &pictures.jitter.brightness, Range(0, 1).Recorded(),
              "Range of random changes of brightness, contrast and saturation, from 0 to 1.");
    flags.Add("hue_jitter", &pictures.jitter.hue, Range(0, 0.5).Recorded(),
              "Range of random turns of the hue, as a share of the circle of colours, up to 0.5.");
    flags.Add("rotation", &pictures.rotation, Range(0, 180).Recorded(),
              "Degrees by which training pictures are turned at random in either direction, up to 180.");
    AddCutout(flags, cutout_, 4096);
    AddMixup(flags, mixup_);
    flags.Add("picture_cache", &picture_cache_, Range(0, 1 << 30),
              "MiB for decoded pictures of each process, which later passes then need not decode again; 0: none are "
              "kept. JPEGs are then decoded whole, not at a part of their size, which changes pixels a little.");
    flags.Add("picture_cache_folder", &pictures.cache.folder,
              "Folder on a fast disk for that cache, in a file that ends with the run. Empty: memory.");
    flags.Add("skip_broken", &pictures.skip_broken,
              "Decode all files once at the start, and leave out those that are broken. Otherwise one ends the run.");
    AddPredict(flags, folders_.predict,
               "Picture files, with commas between and none in their names, whose classes are printed at the end of "
               "the run.");
  }

  absl::Status CheckFlags() const override {
    const models::PictureNetwork& network = *models::FindPictureNetwork(model_);
    const int64_t size = folders_.pictures.height;
    const auto must = [&](const std::string& be) {
      return absl::InvalidArgumentError(absl::StrCat("--size=", size, " must be ", be, " for ", network.name));
    };
    if (size != 0 && size < network.smallest) return must(absl::StrCat(network.smallest, " to 4096"));
    if (size % network.multiple != 0) return must(absl::StrCat("a multiple of ", network.multiple));
    if (folders_.pictures.cache.folder.empty() || picture_cache_ > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("--picture_cache_folder needs --picture_cache");
  }

  absl::Status Configure(ProgramRun& run) override {
    RETURN_IF_ERROR(PictureProgram::Configure(run));
    run.example = "training picture";
    data::PictureOptions& pictures = folders_.pictures;
    pictures.jitter.contrast = pictures.jitter.saturation = pictures.jitter.brightness;
    pictures.cache.bytes = picture_cache_ << 20;
    if (smallest_area_ < 1) pictures.random_crop = data::RandomResizedCrop{.min_area = smallest_area_};
    std::string& optimizer = recipe_.optimizer.name;
    if (optimizer == "default") optimizer = "momentum";
    const bool in_loss = optimizer == "momentum" || optimizer == "nesterov" || optimizer == "descent";
    (in_loss ? folders_.weight_decay : recipe_.optimizer.weight_decay) = weight_decay_;
    return absl::OkStatus();
  }

  std::vector<RunSetting> Settings(const ProgramRun& run) const override {
    std::vector<RunSetting> settings = PictureProgram::Settings(run);
    settings.insert(settings.end(), {{"classes", absl::StrJoin(data_.classes, ","), /*fixed=*/true},
                                     {"--picture_cache", picture_cache_ > 0 ? "on" : "off"}});
    return settings;
  }

 protected:
  absl::StatusOr<std::string> Generate(const std::filesystem::path& temporary) const override {
    const std::string folder = (temporary / absl::StrCat("belfry_pictures_1_", getuid())).string();
    RETURN_IF_ERROR(data::WritePictureSet(folder));
    return folder;
  }

  absl::Status Open(const ProgramRun& run, const std::string& folder) override {
    const models::PictureNetwork& network = *models::FindPictureNetwork(model_);
    data::PictureOptions& pictures = folders_.pictures;
    if (pictures.height == 0) pictures.height = data_dir_.empty() ? kGeneratedSize : network.size;
    pictures.width = pictures.height;
    ASSIGN_OR_RETURN(data_, OpenPictureFolders(folder, network, folders_, run.order.seed));
    default_steps_ = (kPasses * data_.sets.first->size() + run.order.batch_size - 1) / run.order.batch_size;
    evaluation_batch_ = std::min<int64_t>(64, run.order.batch_size);
    return absl::OkStatus();
  }

  void Report(const ProgramRun&, const Trainer& trainer) const override {
    absl::PrintF("Test accuracy %.2f%%, %.2f%% within the first five, after %s.\n", 100 * results_.accuracy,
                 100 * results_.top_5, Counted(trainer.steps(), "step"));
  }

 private:
  PictureFolders folders_ = {.pictures = {.height = 0}};  // which is --size
  double weight_decay_ = 5e-5, smallest_area_ = 0.08;
  int64_t picture_cache_ = 0;  // MiB
};

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  Flags flags;
  ImageClassifier program(flags);
  return TrainingMain(argc, argv, kUsage, program.flags(), program);
}
