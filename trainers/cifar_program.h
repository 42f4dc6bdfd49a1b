// The images, networks and results of cifar10.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainers/datasets/cifar10.h"
#include "trainers/program/classifier_program.h"
#include "trainers/program/optimizer_choice.h"

namespace belfry::trainers {

struct CifarOptions {
  int resnet_depth = 0;  // 20, 32, 44 or 56; 0: the network of TensorFlow's tutorial
  DType dtype = DType::kFloat32;
  double learning_rate = 0.1;
  std::string schedule = "cosine";  // or "constant", "staircase"
  double momentum = 0;
  OptimizerChoice optimizer = {};   // with a name: instead of momentum, or descent if that is 0
  int64_t cutout = 0;               // data::ImagePolicy::cutout, in training
  std::string model = "cifar_net";  // the name of the network
  std::string data_dir = {};        // empty or "generated": a generated set
  bool confusion = true;            // the result has the confusion matrix
};

// A run of cifar10, but for its flags.
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
  data::Cifar10 data_;
};

}  // namespace belfry::trainers
