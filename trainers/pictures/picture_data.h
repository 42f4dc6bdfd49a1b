// Data sets of pictures, and networks for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/data/augment.h"
#include "framework/data/pictures/pictures.h"
#include "framework/graph/scope.h"
#include "models/networks/pictures/picture_networks.h"

namespace belfry::trainers {

// A data set, and the network for it.
struct PictureData {
  data::TrainAndTest sets = {};                      // with the fields "image" and "label"
  std::vector<std::string> classes = {};             // the names; empty: they have none
  data::ImagePolicy training = {}, evaluation = {};  // of "image"
  std::string text = {};                             // "20000 training and 2000 test images"
  std::vector<std::string> predict = {};             // further files, whose classes the program prints
  std::unique_ptr<data::Dataset> to_predict = {};    // their field "image"; null if there are none
  bool batch_norms = true;                           // the network may have some
  // Logits [N, classes] for images [N, H, W, C], in the type of these.
  std::function<Output(const Scope& scope, Output images, bool training)> network = {};
};

// The networks for CIFAR-10 are "cifar_net", that of TensorFlow's tutorial; "resnet20" ..., which are models::ResNet;
// and "speedrun_net" and "record_net", which are models::SpeedrunNet, the latter with unit_logits.
bool IsCifarResNet(absl::string_view model);
bool IsSpeedrunNet(absl::string_view model);
// `per_pixel_mean` is subtracted, instead of a normalisation by channels. Errors: those of OpenCifar10.
absl::StatusOr<PictureData> OpenCifar(const std::string& folder, const std::string& model, bool per_pixel_mean);

struct PictureFolders {
  data::PictureOptions pictures = {};     // of the training: the size, the random part, colours
  double central = 0.875;                 // PictureOptions::central, in evaluations
  double validation_fraction = 0.1;       // of a folder without one for validation
  double weight_decay = 0;                // in the loss, for optimizers that do not apply it themselves
  std::vector<std::string> predict = {};  // PictureData::predict, which are all read once
};
// The folders "train" and "val" or "test" of `folder`, or all of it with a part for validation that `seed` draws.
// Images are normalised as those that published weights were trained with. InvalidArgument: too few pictures, no
// classes, or others to evaluate on; otherwise the errors of OpenImages, OpenPictures and of reading `predict`.
absl::StatusOr<PictureData> OpenPictureFolders(const std::string& folder, const models::PictureNetwork& network,
                                               const PictureFolders& options, uint64_t seed);

}  // namespace belfry::trainers
