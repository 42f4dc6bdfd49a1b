// A graph and a session on it, with some ops whose kernels misbehave on purpose.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/graph/scope.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/state.h"
#include "tests/main/testing.h"

namespace belfry {

class SessionFixture : public testing::Test {
 protected:
  SessionFixture() {
    registry_.Add(Hook("Hook"));
    registry_.Add(Hook("SecondHook"));
  }

  // Gives each device its thread, however short a step is, because hooks may wait for one another.
  void Open(absl::string_view spec, const SessionOptions& options = {.short_step = absl::ZeroDuration()}) {
    session_.reset();
    ASSERT_OK_AND_ASSIGN(auto devices, DeviceSet::Open(spec));
    devices_ = std::make_unique<DeviceSet>(std::move(devices));
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(graph_, *devices_, options));
  }
  // Runs the initializers of all variables.
  void Initialize() {
    const Node* init = InitializeVariables(root_);
    ASSERT_EQ(session_->RunTarget(init), absl::OkStatus());
  }
  Variable Counter(const Scope& scope, absl::string_view name, double value) {
    return GetVariable(scope, name, {}, ConstantInitializer(value));
  }
  // The fetched float32 scalars.
  std::vector<float> Scalars(absl::Span<const Output> fetches, absl::Span<const Node* const> targets = {}) {
    auto result = session_->Run({}, fetches, targets);
    EXPECT_TRUE(result.ok()) << result.status();
    std::vector<float> values;
    if (result.ok()) {
      for (const Tensor& tensor : *result) values.push_back(tensor.scalar<float>());
    }
    return values;
  }
  float ValueOf(const Variable& variable) {
    auto value = session_->ReadVariable(variable);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? value->scalar<float>() : 0.f;
  }
  static int Count(const Plan& plan, absl::string_view op) {
    int count = 0;
    for (const ProgramNode& node : plan.program.nodes) count += node.op->name == op;
    return count;
  }
  std::unique_ptr<PreparedStep> Prepare(absl::Span<const FeedSpec> feeds, absl::Span<const Output> fetches,
                                        absl::Span<const Node* const> targets = {}) {
    return belfry::ValueOf(session_->Prepare(feeds, fetches, targets));
  }

  // The shape rule of an op whose output is like its first input.
  static absl::StatusOr<std::vector<Shape>> ShapeOfInput(const ShapeArgs& args) {
    return std::vector<Shape>{args.inputs[0]};
  }

  // Called by the kernel of op "Hook" before it passes its input on; set it before the kernel runs.
  std::function<absl::Status()> hook_ = [] { return absl::OkStatus(); }, second_hook_ = hook_;
  OpRegistry registry_ = BuiltinOps();
  Graph graph_{registry_};
  const Scope root_{graph_};
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<Session> session_;

 private:
  OpDef Hook(const std::string& name) {
    const auto* hook = name == "Hook" ? &hook_ : &second_hook_;
    return {.name = name,
            .inputs = {{.name = "x"}},
            .outputs = {{.name = "y"}},
            .types = {{"T", kWideFloatTypes}},
            .shape = ShapeOfInput,
            .not_differentiable = true,
            .stateful = true,
            .kernels = {{"CPU", DType::kFloat32, [hook](const KernelSpec& spec) -> absl::StatusOr<Kernel> {
                           const int64_t n = spec.outputs[0].shape.elements();
                           return Kernel{[hook, n](const KernelContext& context) {
                             std::copy_n(context.input<float>(0), n, context.output<float>(0));
                             return (*hook)();
                           }};
                         }}}};
  }
};

}  // namespace belfry
