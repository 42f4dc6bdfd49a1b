// A training program: its data, model and evaluation. The order in which they are opened, built, restored, run and
// reported is the same for all programs: RunTraining, and before it RunTrainingProgram (trainers/flags/program_flags.h)
// for what comes from flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/collective/world.h"
#include "framework/collective/world_collective.h"
#include "framework/data/dataset.h"
#include "framework/data/prefetcher.h"
#include "framework/device/device_set.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "optim/optimizer.h"
#include "trainers/prediction/gpu_card.h"
#include "trainers/program/trainer.h"

namespace belfry::trainers {

// A setting of a run that changes its outcome, in the words of the user: its checkpoints record it.
struct RunSetting {
  std::string name;    // "--batch_size"
  std::string value;   // in effect, also where it is a default
  bool fixed = false;  // a run cannot be resumed with another value
  // Assumed for checkpoints older than the flag. Empty: such checkpoints are refused if `fixed`.
  std::string unrecorded = {};
};

// A run of a program, as far as it is known: first what the flags say, then the data.
struct ProgramRun {
  World& world;
  const DeviceSet& devices;
  TrainerOptions training = {};
  SessionOptions session = {};
  models::ReplicateOptions replicate = {};
  data::PrefetcherOptions order = {};  // of the training data: batch size, towers, seed, images, threads
  std::string variable_update = {};    // for the header
  WorldSum sum = WorldSum::kTowers;    // by which processes average gradients
  bool explain = false;                // print the cost instead of training
  std::optional<GpuCard> card = {};    // that the devices are only described as: with `explain` only
  bool find_learning_rate = false;     // FindLearningRate instead of training
  std::string export_file = {};        // for the saved model of ExportedModel; empty: none
  std::optional<size_t> memory_limit = {};
  absl::Duration start_timeout = absl::Minutes(5);                          // of tasks for each other
  absl::Duration max_run_time = absl::InfiniteDuration();                   // of the training (StopSignals)
  std::function<std::string(int signal, int64_t steps)> stopped_text = {};  // printed if a signal ended the run

  int64_t evaluate_every_epochs = 0;  // training.evaluate_every in passes over the data; 0: as that says
  std::string example = {};           // "training image": a batch of more than the data has is an error; empty: is not

  // Borrowed from the program.
  const data::Dataset* train = nullptr;
  const data::Dataset* test = nullptr;  // null: no evaluation
};

// The number of threads that read data as fast as the towers of these devices train: one for CPUs, which the towers
// keep busy themselves, and three for each card, but not more than half of UsableCores(). A thread decodes and augments
// about 0.6 million CIFAR-10 images a second.
int DataThreads(const DeviceSet& devices);

// The bytes of gradients that are averaged together unless ReplicateOptions::bucket_bytes says so, the same in all
// processes: models::kBucketBytesOnGpus if all their towers are on GPUs, and models::kBucketBytes otherwise. All
// processes must call it. Errors: those of World::AllGather.
absl::StatusOr<size_t> BucketBytes(World& world, const DeviceSet& devices, absl::Time deadline);

// A trained model in evaluation mode, for SaveModel.
struct ExportedModel {
  std::vector<NamedOutput> inputs, outputs;
};
// The fields of a batch by name, except the field `label`.
std::vector<NamedOutput> InputsOf(const models::Batch& batch, absl::string_view label = "");

// The part of a program that differs from others. Each function is called once, in this order, except Loss, Evaluate
// and Exported. Called in every task except Exported and Result; must behave alike in each. Functions without a default
// are required.
class TrainingProgram {
 public:
  virtual ~TrainingProgram() = default;

  // Checks flags that exclude each other, before any work.
  virtual absl::Status CheckFlags() const { return absl::OkStatus(); }
  // Adds the program's own options to the common ones.
  virtual absl::Status Configure(ProgramRun& /*run*/) { return absl::OkStatus(); }
  // Sets run.train and run.test, and run.training.steps unless Configure did.
  virtual absl::Status OpenData(ProgramRun& run) = 0;
  // Settings besides those of recorded flags.
  virtual std::vector<RunSetting> Settings(const ProgramRun& /*run*/) const { return {}; }
  // The run goes on from run.training.resume.checkpoint.
  virtual absl::Status Resume(ProgramRun& /*run*/) { return absl::OkStatus(); }

  virtual absl::StatusOr<std::unique_ptr<optim::Optimizer>> MakeOptimizer(const ProgramRun& run) const = 0;
  // The loss of a tower (models::TowerFunction). Called for each tower.
  virtual absl::StatusOr<Output> Loss(const Scope& tower, const models::Batch& batch) const = 0;
  // Adds the nodes of the evaluation, for an example of these fields, and sets run.training.evaluation_steps. `scope`:
  // on the device of the first tower, whose variables it reuses.
  virtual absl::Status AddEvaluation(ProgramRun& /*run*/, const Scope& /*scope*/,
                                     absl::Span<const data::Field> /*fields*/) {
    return absl::OkStatus();
  }
  // The lines about model and data before the training, "Model:    ...\nData:     ...\n". Empty: no header at all,
  // so no lines about towers either.
  virtual std::string Header(const ProgramRun& /*run*/, const models::TrainStep& /*step*/) const { return ""; }
  // TrainerOptions::evaluate, if there is run.test.
  virtual absl::StatusOr<Evaluation> Evaluate(const ProgramRun& /*run*/, Session& /*session*/, int64_t /*step*/) {
    return absl::UnimplementedError("the program has test data and no evaluation");
  }
  // The model of AddEvaluation, for run.export_file. In task 0. nullopt: there is none.
  virtual std::optional<ExportedModel> Exported() const { return std::nullopt; }
  // In task 0, after the training, also if a signal ended it (Trainer::stopped).
  virtual absl::Status Result(const ProgramRun& /*run*/, Session& /*session*/, const Trainer& /*trainer*/) {
    return absl::OkStatus();
  }
};

// The elements of the trainable variables of a tower, for headers.
int64_t CountParameters(const models::TrainStep& step);

// Builds the graph of a program with opened data, restores it from run.training.resume.checkpoint if that is set, and
// explains or trains it. Returns the signal that ended it, or 0. Errors: those of the program, of building the graph,
// of FitMemoryLimit, ExplainRun, Trainer::Run and SaveModel; before the training, InvalidArgument in
// task 0 if run.export_file is in no folder, or there is no model to export.
absl::StatusOr<int> RunTraining(TrainingProgram& program, ProgramRun& run);

}  // namespace belfry::trainers
