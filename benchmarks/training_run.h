// Training runs for benchmarks: steps of a model on synthetic examples that stay the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/bench_model.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/session.h"
#include "ops/builtin_ops.h"

namespace belfry::benchmarks {

struct TrainingOptions {
  std::string model = "cifar_net";  // a name for FindModel
  std::string devices = "cpu:1";    // one tower on each
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

  absl::Status Step() { return prepared_->Run(feeds_); }
  absl::Status TracedStep(StepTrace& trace) { return prepared_->RunTraced(feeds_, trace); }
  absl::StatusOr<std::vector<StepTrace>> TracedSteps(int count);
  absl::Status Wait() { return prepared_->Wait(); }
  float loss() const { return prepared_->fetched(0).scalar<float>(); }  // of the last step, before its update

  int64_t batch() const { return batch_; }
  int towers() const { return static_cast<int>(feeds_.size()) / 2; }
  const BenchModel& model() const { return model_; }
  const DeviceSet& devices() const { return devices_; }
  Session& session() { return *session_; }
  PreparedStep& prepared() { return *prepared_; }

  // The data that another program needs to do the same work: the current variables and the fields of the examples, by
  // name.
  absl::StatusOr<std::vector<io::NamedTensor>> Problem();

 private:
  TrainingRun() = default;

  BenchModel model_;
  DeviceSet devices_;
  Graph graph_{BuiltinOps()};
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> prepared_;
  int64_t batch_ = 0;
  std::vector<Tensor> feeds_;  // the fields of each tower
};

// Prints the error and ends the program if `status` is not OK.
void OkOrDie(const absl::Status& status);
template <class T>
T ValueOrDie(absl::StatusOr<T> value) {
  OkOrDie(value.status());
  return *std::move(value);
}

}  // namespace belfry::benchmarks
