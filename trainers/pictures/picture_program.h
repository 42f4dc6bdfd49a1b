// A training program that classifies pictures. Derived programs set the data set, the network and the recipe, and add
// flags and defaults of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "trainers/flags/evaluation_flags.h"
#include "trainers/flags/model_flags.h"
#include "trainers/flags/program_flags.h"
#include "trainers/pictures/picture_data.h"
#include "trainers/pictures/recipe.h"
#include "trainers/program/classifier_program.h"

namespace belfry::trainers {

class PictureProgram : public ClassifierProgram {
 public:
  ProgramFlags& flags() { return flags_; }

  absl::Status Configure(ProgramRun& run) override;
  // The generated set is written to the temporary directory by the first process of each machine, for which the others
  // wait: also those that need none, as data_dir may differ.
  absl::Status OpenData(ProgramRun& run) override;
  std::vector<RunSetting> Settings(const ProgramRun& run) const override;
  absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ProgramRun& run) const override {
    return recipe_.MakeOptimizer(ScheduledOf(run));
  }
  std::string Header(const ProgramRun& run, const models::TrainStep& step) const override;
  absl::Status Result(const ProgramRun& run, Session& session, const Trainer& trainer) override;

 protected:
  explicit PictureProgram(Flags& flags, bool fixed_loss_scale = false)
      : flags_(flags), evaluation_(flags), precision_(flags, fixed_loss_scale) {}

  // The rows of --augment_on and --data_on_device. Without these rows the host augments.
  void AddAugmentation(Flags& flags);

  // Writes the generated set to a folder in `temporary`, unless it is there. Returns the folder.
  virtual absl::StatusOr<std::string> Generate(const std::filesystem::path& temporary) const = 0;
  // Sets data_ and default_steps_.
  virtual absl::Status Open(const ProgramRun& run, const std::string& folder) = 0;
  // Prints the figures of the last evaluation.
  virtual void Report(const ProgramRun& run, const Trainer& trainer) const = 0;

  absl::StatusOr<Output> Logits(const Scope& scope, const models::Batch& batch, bool training) const override;

  ProgramFlags flags_;
  // Variables of flags; the program sets the defaults that differ.
  std::string model_, data_dir_, batch_norm_ = "per_tower";  // data_dir_ is empty for the generated set
  PictureRecipe recipe_;
  double moving_average_ = 0, mixup_ = 0;
  int64_t cutout_ = 0, evaluate_views_ = 1;  // ImagePolicy::cutout, in the training; models::AverageOverViews
  bool confusion_ = true;                    // the result has the confusion matrix, of up to 100 classes
  bool per_pixel_mean_ = false;              // of OpenCifar

  PictureData data_;
  int64_t default_steps_ = 0;

 private:
  absl::StatusOr<data::AugmentBy> Augment(const DeviceSet& devices) const;
  absl::Status Predict(Session& session) const;

  EvaluationFlags evaluation_;
  PrecisionFlags precision_;
  std::string augment_on_ = "host";
  bool data_on_device_ = false;
  DType dtype_ = DType::kFloat32;
};

}  // namespace belfry::trainers
