// A small network, trained from fixed values on fixed examples, whose trajectory other frameworks can compute.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/runtime/session.h"
#include "models/towers/replicate_towers.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/main/testing.h"

namespace belfry::models {

// The mean over 9 examples of (tanh(x w1 + b1) w2 + b2 - y)^2, with x[i] = cos(i), y[i] = sin(i), and variables
// "encoder/weights" [3, 4], "encoder/biases" [4], "head/weights" [4, 1], "head/biases" [1] that are sin(k) / 2 for k
// = 0 .. 11, 13 .. 16, 17 .. 20 and 21.
class Trajectory {
 public:
  static Output Predict(const Scope& tower, const Batch& batch) {
    const auto make = [&](const char* layer, const char* name, const Shape& shape) {
      return GetVariable(tower.VariableScope(layer), name, shape, ZerosInitializer());
    };
    const Output hidden =
        ops::Tanh(tower, ops::BiasAdd(tower, ops::MatMul(tower, batch["x"], make("encoder", "weights", {3, 4})),
                                      make("encoder", "biases", {4})));
    return ops::BiasAdd(tower, ops::MatMul(tower, hidden, make("head", "weights", {4, 1})),
                        make("head", "biases", {1}));
  }
  static Output Loss(const Scope& tower, const Batch& batch) {
    return ops::Mean(tower, ops::Square(tower, ops::Sub(tower, Predict(tower, batch), batch["y"])));
  }

  absl::Status Open(const std::string& devices, const optim::Optimizer& optimizer, const ReplicateOptions& options,
                    const TowerFunction& model = Loss) {
    return Open(DeviceSet::Open(devices, {.cpu_threads = 1}), optimizer, options, model);
  }
  // GPUs may be fakes.
  absl::Status Open(absl::StatusOr<DeviceSet> devices, const optim::Optimizer& optimizer,
                    const ReplicateOptions& options, const TowerFunction& model = Loss) {
    ASSIGN_OR_RETURN(devices_, std::move(devices));
    AddFakeGpuKernels(registry_);
    const std::vector<data::Field> fields = {{"x", DType::kFloat32, {3}}, {"y", DType::kFloat32, {1}}};
    step_ = ReplicateTowers(Scope(graph_), devices_, fields, model, optimizer, options);
    RETURN_IF_ERROR(graph_.status());
    ASSIGN_OR_RETURN(session_, Session::Create(graph_, devices_, {.timeout = absl::Seconds(60)}));
    RETURN_IF_ERROR(session_->RunTarget(step_.initialize));
    for (const Variable& variable : graph_.variables()) {
      for (const auto& [name, first] : kFirst) {
        if (variable.name() != name) continue;
        RETURN_IF_ERROR(session_->WriteVariable(variable, Values(variable.shape(), [first = first](int64_t i) {
                                                  return std::sin(static_cast<double>(i + first)) / 2;
                                                })));
      }
    }
    return absl::OkStatus();
  }
  // Runs steps, each with all examples, of which the last towers have fewer. `scale`: of x.
  absl::Status Train(int steps, double scale = 1) {
    const int64_t series = step_.micro_batches, towers = static_cast<int64_t>(step_.towers.size()) * series;
    std::vector<std::vector<Feed>> feeds(series);  // by index in the series
    int64_t begin = 0;
    for (int64_t t = 0; t < towers; ++t) {
      const int64_t n = (9 - begin + towers - t - 1) / (towers - t), index = t % series;
      const TrainTower& tower = step_.towers[t / series];
      const auto feed = [&](Output input, const Tensor& value) { feeds[index].push_back({input, value}); };
      feed(tower.batch["x"], Values({n, 3}, [&](int64_t i) { return scale * std::cos(i + 3. * begin); }));
      feed(tower.batch["y"], Values({n, 1}, [&](int64_t i) { return std::sin(i + 1. * begin); }));
      if (series > 1) feed(tower.index, Tensor::Scalar(index));
      if (series > 1) feed(tower.first_example, Tensor::Scalar(begin));
      begin += n;
    }
    for (int s = 0; s < steps; ++s) {
      for (int64_t i = 0; i < series && series > 1; ++i) {
        RETURN_IF_ERROR(session_->RunTarget(step_.accumulate, feeds[i]));
      }
      RETURN_IF_ERROR(session_->RunTarget(step_.update, series > 1 ? std::vector<Feed>() : feeds[0]));
    }
    return absl::OkStatus();
  }
  // The value in replica 0.
  std::vector<double> Value(const std::string& name) const {
    const Variable variable = graph_.FindVariable(name, 0);
    EXPECT_TRUE(variable.valid()) << name;
    return variable.valid() ? session_->ReadVariable(variable)->ToDoubles() : std::vector<double>();
  }

  const Graph& graph() const { return graph_; }
  const TrainStep& step() const { return step_; }
  Session& session() { return *session_; }

 private:
  static constexpr std::pair<const char*, int> kFirst[] = {
      {"encoder/weights", 0}, {"encoder/biases", 13}, {"head/weights", 17}, {"head/biases", 21}};

  template <class F>
  static Tensor Values(const Shape& shape, const F& f) {
    Tensor tensor(DType::kFloat32, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = static_cast<float>(f(i));
    return tensor;
  }

  DeviceSet devices_;
  OpRegistry registry_ = BuiltinOps();
  Graph graph_{registry_};
  TrainStep step_;
  std::unique_ptr<Session> session_;
};

}  // namespace belfry::models
