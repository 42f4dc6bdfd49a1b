// The images, networks and results of cifar10.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "optim/schedule.h"
#include "trainers/datasets/cifar10.h"
#include "trainers/program/classifier_program.h"
#include "trainers/program/optimizer_choice.h"
#include "trainers/program/schedule_choice.h"

namespace belfry::trainers {

struct CifarOptions {
  int resnet_depth = 0;  // 20, 32, 44 or 56
  // models::SpeedrunNet, with SpeedrunNetOptions::unit_logits in the second case; otherwise, and without a depth, the
  // network of TensorFlow's tutorial.
  bool speedrun = false, unit_logits = false;
  DType dtype = DType::kFloat32;
  ScheduleChoice schedule = {};
  double momentum = -1;            // -1: 0 for the tutorial's network, and 0.9 for the others
  OptimizerChoice optimizer = {};  // "default": momentum, or descent if that is 0
  // GroupedRates; all 0: the rate is one, and decay the model's own.
  double norm_learning_rate = 0, head_learning_rate = 0, weight_decay_per_step = 0;
  double lookahead_end = 0;         // the slow weights' share at the last step, falling from 1; 0: half throughout
  double epochs = 0;                // instead of TrainerOptions::steps; 0: those
  int64_t evaluate_views = 1;       // models::AverageOverViews
  bool per_pixel_mean = false;      // of a ResNet's images, instead of their normalisation by channels
  int64_t cutout = 0;               // data::ImagePolicy::cutout, in training
  std::string model = "cifar_net";  // the name of the network
  std::string data_dir = {};        // empty or "generated": a generated set
  bool confusion = true;            // the result has the confusion matrix
};

// A run of cifar10, without its flags.
class CifarProgram : public ClassifierProgram {
 public:
  // The generated set is written to the temporary directory by the first process of each machine, for which the others
  // wait: also those that need none, as data_dir may differ.
  absl::Status OpenData(ProgramRun& run) override;
  absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ProgramRun& run) const override;
  std::string Header(const ProgramRun& run, const models::TrainStep& step) const override;
  absl::Status Result(const ProgramRun& run, Session& session, const Trainer& trainer) override;

 protected:
  absl::StatusOr<Output> Logits(const Scope& scope, const models::Batch& batch, bool training) const override;
  bool generated() const { return options_.data_dir.empty() || options_.data_dir == "generated"; }

  CifarOptions options_;  // to be set before OpenData

 private:
  absl::Status SetImages(ProgramRun& run);
  Output Network(const Scope& scope, Output images, bool training) const;

  Tensor whitening_;  // the first layer's weights of a SpeedrunNet
  data::Cifar10 data_;
};

}  // namespace belfry::trainers
