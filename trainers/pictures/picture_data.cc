#include "trainers/pictures/picture_data.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/data/image_statistics.h"
#include "framework/data/subset.h"
#include "framework/io/file.h"
#include "models/networks/cifar_net.h"
#include "models/networks/resnet.h"
#include "models/networks/speedrun_net.h"
#include "trainers/datasets/cifar10.h"
#include "trainers/row_split.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;

// Mean and deviation of each channel over ImageNet, in units of the bytes, with which published weights were trained.
constexpr float kMean[] = {123.675f, 116.28f, 103.53f}, kDeviation[] = {58.395f, 57.12f, 57.375f};

bool HasFolders(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = io::ListFolder(folder);
  std::error_code error;
  return names.ok() && std::any_of(names->begin(), names->end(), [&](const std::string& name) {
           return fs::is_directory(fs::path(folder) / name, error);
         });
}

absl::StatusOr<data::TrainAndTest> OpenSets(const std::string& folder, const PictureFolders& options,
                                            const data::PictureOptions& test, uint64_t seed) {
  const std::string train_folder = (fs::path(folder) / "train").string();
  data::TrainAndTest sets;
  for (const char* held_out : {"val", "test"}) {
    const std::string test_folder = (fs::path(folder) / held_out).string();
    if (!HasFolders(train_folder) || !HasFolders(test_folder)) continue;
    ASSIGN_OR_RETURN(sets.first, data::OpenImages(train_folder, options.pictures));
    ASSIGN_OR_RETURN(sets.second, data::OpenImages(test_folder, test));
    return sets;
  }
  ASSIGN_OR_RETURN(sets, data::OpenImages(folder, options.pictures, test));
  const RowSplit split = SplitRows(sets.first->size(), options.validation_fraction, seed);
  if (split.training.empty()) return absl::InvalidArgumentError(absl::StrCat(folder, " has too few pictures"));
  sets.first = data::Subset(std::move(sets.first), split.training);
  sets.second = data::Subset(std::move(sets.second), split.held_out.empty() ? split.training : split.held_out);
  return sets;
}

// The names of the classes, which the field "label" has.
absl::StatusOr<std::vector<std::string>> ClassesOf(const data::Dataset& dataset, const std::string& folder) {
  const absl::StatusOr<size_t> label = data::FindField(dataset.fields(), "label");
  const data::Field field = label.ok() ? dataset.fields()[*label] : data::Field();
  if (!field.category_names.empty() && field.dtype == DType::kInt32) return field.category_names;
  return absl::InvalidArgumentError(
      absl::StrCat(folder, ": expected a folder for each class, or a list with a column 'label' of their names"));
}

}  // namespace

bool IsCifarResNet(absl::string_view model) { return absl::StartsWith(model, "resnet"); }
bool IsSpeedrunNet(absl::string_view model) { return model == "speedrun_net" || model == "record_net"; }

absl::StatusOr<PictureData> OpenCifar(const std::string& folder, const std::string& model, bool per_pixel_mean) {
  ASSIGN_OR_RETURN(data::Cifar10 cifar, data::OpenCifar10(folder));
  const data::Dataset& train = *cifar.train;
  PictureData data;
  data.classes = train.fields()[1].category_names;
  data.text = absl::StrFormat("%d training and %d test images", train.size(), cifar.test->size());
  data.sets = {std::move(cifar.train), std::move(cifar.test)};
  if (!IsCifarResNet(model) && !IsSpeedrunNet(model)) {
    data.training = data::TutorialTraining();
    data.evaluation = data::TutorialEvaluation();
    data.batch_norms = false;
    data.network = [](const Scope& scope, Output images, bool) { return models::CifarNet(scope, images); };
    return data;
  }
  ASSIGN_OR_RETURN(const data::ChannelStatistics statistics, data::ComputeChannelStatistics(train));
  data.evaluation = data::ResNetEvaluation(statistics);
  if (IsSpeedrunNet(model)) {
    data.training = data::SpeedrunTraining(statistics);
    ASSIGN_OR_RETURN(const Tensor whitening, data::WhiteningFilters(train, data.evaluation));
    data.network = [whitening, unit = model == "record_net"](const Scope& scope, Output images, bool training) {
      return models::SpeedrunNet(scope, images, {.unit_logits = unit, .training = training, .whitening = whitening});
    };
    return data;
  }
  data.training = data::ResNetTraining(statistics);
  if (per_pixel_mean) {
    ASSIGN_OR_RETURN(const std::vector<float> mean, data::ComputeMeanImage(train));
    for (data::ImagePolicy* policy : {&data.training, &data.evaluation}) {
      policy->normalise = data::ImagePolicy::Normalise::kPerPixel;
      policy->mean = mean;
      policy->deviation.assign(data::kCifar10Channels, 255);
    }
  }
  int depth = 0;
  BELFRY_CHECK(absl::SimpleAtoi(absl::StripPrefix(model, "resnet"), &depth));
  data.network = [depth](const Scope& scope, Output images, bool training) {
    return models::ResNet(scope, images, {.depth = depth, .training = training});
  };
  return data;
}

absl::StatusOr<PictureData> OpenPictureFolders(const std::string& folder, const models::PictureNetwork& network,
                                               const PictureFolders& options, uint64_t seed) {
  const data::PictureOptions& pictures = options.pictures;
  data::PictureOptions test{.height = pictures.height,
                            .width = pictures.width,
                            .central = options.central,
                            .skip_broken = pictures.skip_broken};
  PictureData data;
  ASSIGN_OR_RETURN(data.sets, OpenSets(folder, options, test, seed));
  ASSIGN_OR_RETURN(data.classes, ClassesOf(*data.sets.first, folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> held_out, ClassesOf(*data.sets.second, folder));
  if (held_out != data.classes) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": the classes to train on are ",
                                                   absl::StrJoin(data.classes, ", "), ", but those to evaluate on are ",
                                                   absl::StrJoin(held_out, ", ")));
  }
  if (!options.predict.empty()) {
    data.predict = options.predict;
    test.skip_broken = false;
    ASSIGN_OR_RETURN(data.to_predict, data::OpenPictures(options.predict, test));
    // A file that cannot be decoded ends the run before it begins.
    for (int64_t i = 0; i < data.to_predict->size(); ++i) {
      RETURN_IF_ERROR(data::ReadExample(*data.to_predict, i).status());
    }
  }
  data.evaluation = {.normalise = data::ImagePolicy::Normalise::kPerChannel,
                     .mean = {kMean, kMean + 3},
                     .deviation = {kDeviation, kDeviation + 3}};
  data.training = data.evaluation;
  data.training.random_flip = true;
  data.text = absl::StrFormat("%d training and %d validation pictures of %d classes, %dx%d", data.sets.first->size(),
                              data.sets.second->size(), data.classes.size(), pictures.width, pictures.height);
  data.network = [build = network.build, classes = static_cast<int64_t>(data.classes.size()),
                  decay = options.weight_decay](const Scope& scope, Output images, bool training) {
    return build(scope, images, {.classes = classes, .training = training, .weight_decay = decay});
  };
  return data;
}

}  // namespace belfry::trainers
