// A graph and a session on one CPU device, shared by the tests of models.
#pragma once

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "framework/graph/graph.h"
#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/state.h"
#include "optim/apply.h"
#include "tests/main/testing.h"

namespace belfry::models {

// Normal random numbers.
inline Tensor NormalTensor(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = normal(TestRandom());
  return tensor;
}

class ModelTest : public ::testing::Test {
 protected:
  Output Images(int64_t height, int64_t width, int64_t channels) {
    return ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, height, width, channels});
  }
  Output Labels() { return ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown}); }

  static Tensor Random(const Shape& shape) { return NormalTensor(shape); }
  // A value for an input whose unknown extents are n, the first, and 11: random numbers, or integers below 50.
  static Tensor ValueFor(const Output& input, int64_t n) {
    Shape shape = input.shape();
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == Shape::kUnknown) shape.set_dim(axis, axis == 0 ? n : 11);
    }
    if (input.dtype() == DType::kFloat32) return Random(shape);
    Tensor ids(input.dtype(), shape);
    for (int64_t i = 0; i < ids.elements(); ++i) {
      const auto id = static_cast<int32_t>(TestRandom()() % 50);
      if (ids.dtype() == DType::kInt32) ids.data<int32_t>()[i] = id;
      if (ids.dtype() == DType::kInt64) ids.data<int64_t>()[i] = id;
    }
    return ids;
  }
  // 0, 1 ... classes - 1, repeated.
  static Tensor Classes(int64_t n, int classes) {
    Tensor tensor(DType::kInt32, {n});
    for (int64_t i = 0; i < n; ++i) tensor.data<int32_t>()[i] = static_cast<int32_t>(i % classes);
    return tensor;
  }

  // Opens a session on the graph in its current state, and initializes the variables.
  void Start() {
    const Node* initialize = InitializeVariables(scope_);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(graph_, devices_));
    ASSERT_EQ(session_->RunTarget(initialize), absl::OkStatus());
  }
  std::vector<Tensor> Run(const std::vector<Feed>& feeds, const std::vector<Output>& fetches,
                          const std::vector<const Node*>& targets = {}) {
    auto result = session_->Run(feeds, fetches, targets);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : std::vector<Tensor>(fetches.size(), Tensor::Scalar(NAN));
  }
  float Scalar(const std::vector<Feed>& feeds, Output fetch) { return Run(feeds, {fetch})[0].scalar<float>(); }
  std::vector<double> Value(const Variable& variable) {
    auto value = session_->ReadVariable(variable);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? value->ToDoubles() : std::vector<double>();
  }
  Variable Find(absl::string_view name) const { return graph_.FindVariable(name, scope_.replica()); }
  std::vector<std::string> VariableNames() const {
    std::vector<std::string> names;
    for (const Variable& variable : graph_.variables()) names.push_back(variable.name());
    return names;
  }

  // A step of plain gradient descent on all trainable variables, together with everything else that runs with a step.
  const Node* Descent(Output loss, float rate) {
    std::vector<Output> updates = graph_.GetCollection(kUpdateOps);
    for (const auto& [gradient, variable, indices] :
         optim::ComputeGradients(scope_, loss, optim::TrainableVariables(scope_))) {
      if (gradient.valid()) updates.push_back(ops::AssignSub(scope_, variable, ops::Scale(scope_, gradient, rate)));
    }
    return ops::Group(scope_, updates);
  }

  DeviceSet devices_ = DeviceSet::Open("cpu:1").value();
  Graph graph_{BuiltinOps()};
  const Scope scope_{graph_};
  std::unique_ptr<Session> session_;
};

}  // namespace belfry::models
