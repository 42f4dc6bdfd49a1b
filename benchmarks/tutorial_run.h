// Training steps of the CIFAR-10 tutorial network, for benchmarks: float32, gradient descent, synthetic images.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/runtime/session.h"

namespace belfry::benchmarks {

inline constexpr double kTutorialRate = 0.01;

// Normal numbers [batch, 24, 24, 3] and classes [batch]; the same at each call.
struct TutorialData {
  explicit TutorialData(int64_t batch);
  Tensor images, labels;
};

// Towers on CPU devices with one thread each. Errors end the program.
class TutorialRun {
 public:
  // `data` is split evenly. `dump`: SessionOptions::dump_plan.
  TutorialRun(int towers, const TutorialData& data, const std::string& dump = "");
  void Step();
  void TracedStep();
  float loss() const { return step_->fetched(0).scalar<float>(); }  // of the last step
  Session& session() { return *session_; }

 private:
  DeviceSet devices_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<PreparedStep> step_;
  std::vector<Tensor> feeds_;
  StepTrace trace_;
};

// Ends the program with the error, if it is one.
void OkOrDie(const absl::Status& status);
template <class T>
T ValueOrDie(absl::StatusOr<T> value) {
  OkOrDie(value.status());
  return *std::move(value);
}

}  // namespace belfry::benchmarks
