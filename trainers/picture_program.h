// The pictures, networks and results of image_classifier.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/pictures/pictures.h"
#include "models/networks/pictures/picture_networks.h"
#include "trainers/program/classifier_program.h"
#include "trainers/program/optimizer_choice.h"
#include "trainers/program/schedule_choice.h"

namespace belfry::trainers {

struct PictureProgramOptions {
  std::string model = "resnet18";  // one of models::PictureNetworks()
  int64_t size = 0;                // height and width of the pictures; 0: the network's, or 64 for the generated set
  DType dtype = DType::kFloat32;
  std::string data_dir = {};           // empty: a generated set
  double validation_fraction = 0.1;    // of a folder without one for validation
  data::PictureOptions pictures = {};  // of the training: the random part, colours; sizes are `size`
  int64_t cutout = 0;                  // ImagePolicy::cutout, in the training
  double central = 0.875;              // PictureOptions::central, in evaluations
  ScheduleChoice schedule = {};
  double weight_decay = 5e-5;
  OptimizerChoice optimizer = {};
  std::vector<std::string> predict = {};  // files, whose classes are printed at the end
};

// A run of image_classifier, without its flags.
class PictureProgram : public ClassifierProgram {
 public:
  // The generated set is written to the temporary directory by the first process of each machine.
  absl::Status OpenData(ProgramRun& run) override;
  std::vector<RunSetting> Settings(const ProgramRun& run) const override;
  absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ProgramRun& run) const override;
  std::string Header(const ProgramRun& run, const models::TrainStep& step) const override;
  absl::Status Result(const ProgramRun& run, Session& session, const Trainer& trainer) override;

 protected:
  absl::StatusOr<Output> Logits(const Scope& scope, const models::Batch& batch, bool training) const override;

  PictureProgramOptions options_;  // to be set before OpenData

 private:
  bool DecaysInLoss() const;
  absl::Status Predict(Session& session) const;

  const models::PictureNetwork* network_ = nullptr;
  std::vector<std::string> classes_;
  std::unique_ptr<data::Dataset> train_, test_, to_predict_;
};

}  // namespace belfry::trainers
