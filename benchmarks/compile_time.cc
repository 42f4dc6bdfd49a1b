// Benchmark of compilation: time to differentiate, place and compile a graph, by its number of nodes, for a deep
// network with its training step on one device and in two towers. A time that grows faster than the number of nodes is
// a bug.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/status.h"
#include "framework/compiler/verify/verify.h"
#include "framework/device/device_set.h"
#include "framework/graph/gradients.h"
#include "framework/runtime/session.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "ops/state.h"

namespace belfry::benchmarks {
namespace {

constexpr int kRepeats = 3;
constexpr int64_t kWidth = 8, kBatch = 4;
constexpr int kNodesALayer = 17;  // approximate: forward, backward, variables and updates
constexpr int kBucket = 20;       // number of gradients averaged together

// One tower's part of the training step.
struct Step {
  Output x, loss;
  const Node* train = nullptr;
};

absl::StatusOr<Step> BuildTower(const Scope& tower, int layers, int rank, int towers) {
  Step step;
  step.x = ops::Placeholder(tower, DType::kFloat32, {kBatch, kWidth});
  Output h = step.x;
  std::vector<Variable> variables;
  for (int layer = 0; layer < layers; ++layer) {
    const Scope scope = tower.VariableScope("layer_" + std::to_string(layer));
    variables.push_back(GetVariable(scope, "weights", {kWidth, kWidth}, GlorotUniformInitializer()));
    variables.push_back(GetVariable(scope, "biases", {kWidth}, ZerosInitializer()));
    const Variable& biases = variables.back();
    h = ops::Relu(scope, ops::BiasAdd(scope, ops::MatMul(scope, h, variables[variables.size() - 2]), biases));
  }
  step.loss = ops::Mean(tower, ops::Square(tower, h));
  ASSIGN_OR_RETURN(std::vector<Output> gradients,
                   Gradients(tower, {step.loss}, std::vector<Output>(variables.begin(), variables.end())));
  for (size_t begin = 0; towers > 1 && begin < gradients.size(); begin += kBucket) {
    const absl::Span<Output> bucket = absl::MakeSpan(gradients).subspan(begin, kBucket);
    const std::vector<Output> means =
        ops::AllReduceMean(tower, {.group = "bucket_" + std::to_string(begin), .rank = rank, .size = towers},
                           ops::Const(tower, 1.0f), bucket);
    std::copy(means.begin(), means.end(), bucket.begin());
  }
  std::vector<Output> updates;
  for (size_t i = 0; i < variables.size(); ++i) {
    updates.push_back(ops::AssignSub(tower, variables[i], ops::Scale(tower, gradients[i], 0.01)));
  }
  step.train = ops::Group(tower, updates);
  return step;
}

absl::Status Measure(int nodes, int towers) {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:" + std::to_string(towers)));
  double best[4] = {1e9, 1e9, 1e9, 1e9};
  int size = 0, planned = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    Clock::time_point begin = Clock::now();
    const auto end_lap = [&](int lap) {
      best[lap] = std::min(best[lap], Seconds(begin) * 1e3);
      begin = Clock::now();
    };
    Graph graph(BuiltinOps());
    std::vector<FeedSpec> feeds;
    std::vector<Output> losses;
    std::vector<const Node*> targets;
    for (int i = 0; i < towers; ++i) {
      const std::string n = std::to_string(i);
      const Scope tower = Scope(graph).NameScope("tower_" + n).Device("/cpu:" + n).Replica(i);
      ASSIGN_OR_RETURN(const Step step, BuildTower(tower, nodes / towers / kNodesALayer, i, towers));
      feeds.push_back({step.x, {kBatch, kWidth}});
      losses.push_back(step.loss);
      targets.push_back(step.train);
    }
    end_lap(0);
    ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(graph, devices));
    end_lap(1);
    ASSIGN_OR_RETURN(const std::unique_ptr<PreparedStep> step, session->Prepare(feeds, losses, targets));
    end_lap(2);
    RETURN_IF_ERROR(VerifyPlan(step->plan()).status());
    end_lap(3);
    size = graph.size();
    planned = static_cast<int>(step->plan().program.nodes.size());
  }
  std::printf("%6d %7d %7d %10.1f %10.1f %10.1f %10.1f %12.1f\n", towers, size, planned, best[0], best[1], best[2],
              best[3], (best[1] + best[2]) / size * 1e3);
  return absl::OkStatus();
}

absl::Status Run() {
  std::printf("Milliseconds, the best of %d\n", kRepeats);
  std::printf("towers   nodes planned      build      place    prepare     verify us a node (place, prepare)\n");
  for (int towers : {1, 2}) {
    for (int nodes : {1000, 10000, 30000}) RETURN_IF_ERROR(Measure(nodes, towers));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Measures the time to compile a graph, by its number of nodes.",
                                          belfry::benchmarks::Run);
}
