// Replays: a training program that runs some steps of a recorded run again, for the program `audit`.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "framework/runtime/result_observer.h"
#include "framework/runtime/saver.h"
#include "trainers/callbacks/callback.h"

namespace belfry::trainers {

// A request for a replay, which is a JSON file.
struct ReplayRequest {
  int64_t until = 0;        // the number of steps after which the run stops
  int64_t results_of = -1;  // the step, from 0, whose nodes' results are wanted; -1: none
  std::string report = {};  // the file to write

  // InvalidArgument, with the path: the file is not a request.
  static absl::StatusOr<ReplayRequest> Read(const std::string& path);
  absl::Status Write(const std::string& path) const;
};

// Writes a report as the run goes, a JSON object per line: before the first step and after each,
//
//   {"steps": 101, "loss": 2.25, "weights": "<WeightsDigest>", "tensors": {"conv1/weights": "float32 [5,5,3,64]
//   9f3c..."}}
//
// where the loss is that of the step before; and for each result of a node in step `results_of`, device by device
// in the order of computation,
//
//   {"run": 0, "index": 12, "output": 0, "name": "tower_0/conv1/Conv2D", "what": "<Describe>", "device": "CPU:0",
//    "shape": "float32 [64,24,24,64]", "digest": "<DigestText>"}
//
// with the number of the session's run in the step. An update, which has no output, has its variable as output
// -1 - input.
class Replay final : public Callback, public std::enable_shared_from_this<Replay> {
 public:
  // `path`: of the request.
  explicit Replay(std::string path) : path_(std::move(path)) {}

  // Errors: also those of ReplayRequest::Read and of creating the report.
  absl::Status OnStart(TrainingState& state) override;
  absl::Status OnStep(TrainingState& state) override { return AfterSteps(state); }
  bool WantsResults(int64_t /*step*/) override { return true; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  absl::Status AfterSteps(TrainingState& state);
  void AddResult(const NodeResult& result, const DeviceSet& devices);
  absl::Status Write(const std::string& line);

  const std::string path_;
  ReplayRequest request_;
  std::unique_ptr<std::FILE, Close> report_;
  Snapshot snapshot_;
  std::atomic<bool> observes_{false};  // the step whose results are wanted is running
  Mutex mutex_;
  std::vector<std::string> results_ ABSL_GUARDED_BY(mutex_);
  int64_t first_run_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace belfry::trainers
