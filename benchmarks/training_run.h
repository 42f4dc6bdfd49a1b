// Training runs for benchmarks: steps of a model on synthetic examples that stay the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/bench_model.h"
#include "benchmarks/paired_runs.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/session.h"
#include "ops/builtin_ops.h"

namespace belfry::benchmarks {

struct TrainingOptions {
  std::string model = "cifar_net";  // a name for FindModel
  std::string devices = "cpu:1";    // one tower on each, or `replicate.micro_batches`
  DeviceOptions device;
  int64_t batch = 0;              // examples per step over all towers; 0: the model's default
  bool in_first_tower = false;    // feed all examples to the first tower and none to the others
  std::string dtype = "float32";  // dtype that the model computes in; weights are float32, and float16 uses a loss
                                  // scale
  bool momentum = true;           // false: plain gradient descent, whatever the model's rule
  models::ReplicateOptions replicate;
  SessionOptions session;
};

// A model, its session, and its step with the data fed. Not thread-safe. s5 on one device is its scenario's program;
// everything else is replicated by models::ReplicateTowers.
class TrainingRun {
 public:
  // InvalidArgument: an unknown model or dtype, or a batch that the towers should share evenly and cannot. Also returns
  // the errors of opening the devices and creating the session.
  static absl::StatusOr<std::unique_ptr<TrainingRun>> Create(const TrainingOptions& options);

  absl::Status Step();
  // Traces of the step; with towers in series, of their update only.
  absl::Status TracedStep(StepTrace& trace) { return prepared_->RunTraced(feeds_, trace); }
  absl::StatusOr<std::vector<StepTrace>> TracedSteps(int count);  // after some that are not traced
  absl::Status Wait() { return prepared_->Wait(); }
  float loss() const { return prepared_->fetched(0).scalar<float>(); }  // of the last step, before its update

  int64_t batch() const { return batch_; }
  double compile_seconds() const { return compile_seconds_; }  // to make the graph, and to place and compile its steps
  const BenchModel& model() const { return model_; }
  const DeviceSet& devices() const { return devices_; }
  Session& session() { return *session_; }
  PreparedStep& prepared() { return *prepared_; }
  size_t variable_bytes() const;  // of all variables
  size_t arena_bytes() const;     // of the first tower's device; with towers in series, for both of its prepared steps

  // The data that another program needs to do the same work: the current variables and the fields of the examples, by
  // name.
  absl::StatusOr<std::vector<io::NamedTensor>> Problem();

 private:
  TrainingRun() = default;
  absl::Status Open(const TrainingOptions& options);
  absl::Status PrepareSeries(const models::TrainStep& step, absl::Span<const Tensor> data);
  void FeedSeries(int64_t towers, int64_t series, absl::Span<const Tensor> data);

  BenchModel model_;
  DeviceSet devices_;
  Graph graph_{BuiltinOps()};
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> prepared_;    // with towers in series, their update
  std::unique_ptr<PreparedStep> accumulate_;  // the run of a tower of each device; null without series
  int64_t batch_ = 0;
  double compile_seconds_ = 0;
  std::vector<Tensor> feeds_;                // the fields of each tower
  std::vector<std::vector<Tensor>> series_;  // the feeds of each run of accumulate_
};

// The steps of `run`, which must outlive the side, timed in units of its model.
Side SideOf(std::string name, TrainingRun& run);

}  // namespace belfry::benchmarks
