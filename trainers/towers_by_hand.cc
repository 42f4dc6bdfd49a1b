// The teaching example: towers on several devices, written out without models::ReplicateTowers.
#include <algorithm>
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "trainers/callbacks/metrics.h"
#include "trainers/flags/command_line.h"
#include "trainers/flags/run_flags.h"
#include "trainers/flags/session_flags.h"
#include "trainers/hand_made_towers.h"
#include "trainers/loop/trainer.h"

ABSL_FLAG(int, epochs, 20, "Passes over the training examples, unless --steps is set.");
ABSL_FLAG(double, learning_rate, 0.1, "Learning rate of gradient descent with momentum 0.9.");

namespace belfry::trainers {
namespace {

constexpr char kUsage[] = R"(The teaching example: a program for several devices, written out line by line.

  towers_by_hand --devices=cpu:2 --log_device_placement

First each device multiplies two small matrices and the CPU adds the products; the placement log shows where each node
runs. Then one tower per device is trained on points in three spiral arms, with gradients averaged on the CPU, and tested
with a model that shares the variables. The code is in trainers/towers_by_hand.cc and trainers/hand_made_towers.cc;
models::ReplicateTowers does the second part in one call.

--batch_size is split evenly over the towers. --steps is the total number of steps. --metrics_file receives one JSON
object per epoch: step, loss, train_accuracy, test_accuracy, test_loss.
)";

constexpr int64_t kMaxEpochs = 1'000'000;
constexpr int64_t kTrainPoints = 6'000, kTestPoints = 1'200;

std::vector<DeviceName> TowerDevices(const DeviceSet& devices) {
  std::vector<DeviceName> names;
  for (int i : devices.TowerDevices()) names.push_back(devices.device(i).name());
  return names;
}

// c[i] = a * b on each device, and their sum on the CPU.
absl::Status MultiplyOnEachDevice(const DeviceSet& devices) {
  Graph graph(BuiltinOps());
  const Scope root(graph);
  std::vector<Output> c;
  for (const DeviceName& device : TowerDevices(devices)) {
    const Scope scope = root.Device(device);
    const Output a = ops::Const(scope, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3});
    const Output b = ops::Const(scope, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2});
    c.push_back(ops::MatMul(scope, a, b));
  }
  const Output sum = ops::AddN(root.Device("/cpu:0"), c);

  ASSIGN_OR_RETURN(const SessionOptions options, SessionOptionsFromFlags(devices));
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, options));
  ASSIGN_OR_RETURN(const std::vector<Tensor> result, session->Run({sum}));
  std::printf("The sum of a * b over %s: %s\n", Counted(static_cast<int64_t>(c.size()), "device").c_str(),
              result[0].ToString(4).c_str());
  return absl::OkStatus();
}

absl::Status TrainTowers(const DeviceSet& devices, MetricsWriter& metrics) {
  // Data.
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  const Points train_points = MakeSpiral(kTrainPoints, seed);
  const Points test_points = MakeSpiral(kTestPoints, seed + 1);

  // The training model: one tower per device, below "train/".
  Graph graph(BuiltinOps());
  graph.set_seed(seed);
  const Scope root(graph);
  const std::vector<DeviceName> tower_devices = TowerDevices(devices);
  const auto towers = static_cast<int64_t>(tower_devices.size());
  ASSIGN_OR_RETURN(const int64_t global_batch,
                   GlobalBatchSize(static_cast<int>(towers), towers, std::min(kTrainPoints, towers * kTestPoints)));
  const int64_t batch_size = global_batch / towers;  // of one tower
  const Node* train_op = MultiGpuModel(root.NameScope("train"), tower_devices, absl::GetFlag(FLAGS_learning_rate));

  // The test model: on one device, below "test/", with the same variables.
  BuildModel(root.NameScope("test").Device("/cpu:0").ReuseVariables(Reuse::kAlways), 0, kTestModels);
  const Node* initialize = InitializeVariables(root);

  // Reports every error in the graph.
  ASSIGN_OR_RETURN(const SessionOptions options, SessionOptionsFromFlags(devices));
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, options));
  RETURN_IF_ERROR(session->RunTarget(initialize));

  const int64_t steps_per_epoch = kTrainPoints / (batch_size * towers);
  ASSIGN_OR_RETURN(const int64_t steps, Steps(absl::GetFlag(FLAGS_epochs) * steps_per_epoch));
  if (steps == 0) std::printf("Nothing to train: the number of steps is 0.\n");
  int64_t done = 0;
  for (int64_t epoch = 1; done < steps; ++epoch) {
    const int64_t part = std::min(steps - done, steps_per_epoch);  // the last epoch may be shorter
    ASSIGN_OR_RETURN(const EpochResult train, RunEpoch(*session, Rows(train_points, 0, part * batch_size * towers),
                                                       "train", train_op, true, batch_size));
    done += part;
    ASSIGN_OR_RETURN(const EpochResult test, RunEpoch(*session, test_points, "test", nullptr, false, batch_size));
    absl::PrintF("Epoch %d: train loss %.4f, train accuracy %.1f%%; test loss %.4f, test accuracy %.1f%%\n",
                 static_cast<int>(epoch), train.loss, 100 * train.accuracy, test.loss, 100 * test.accuracy);
    RETURN_IF_ERROR(metrics.Write({{"step", static_cast<double>(done)},
                                   {"loss", train.loss},
                                   {"train_accuracy", train.accuracy},
                                   {"test_accuracy", test.accuracy},
                                   {"test_loss", test.loss}}));
    RETURN_IF_ERROR(CheckLoss(train.loss, done - 1));
  }
  return absl::OkStatus();
}

absl::Status Run() {
  RETURN_IF_ERROR(CheckFlag("epochs", absl::GetFlag(FLAGS_epochs), 0, kMaxEpochs));
  RETURN_IF_ERROR(CheckLearningRate(absl::GetFlag(FLAGS_learning_rate)));
  ASSIGN_OR_RETURN(const std::string metrics_file, PrepareOutputs());
  ASSIGN_OR_RETURN(MetricsWriter metrics, MetricsWriter::Open(metrics_file));
  ASSIGN_OR_RETURN(const DeviceSet devices, OpenDevices());
  RETURN_IF_ERROR(MultiplyOnEachDevice(devices));
  return TrainTowers(devices, metrics);
}

}  // namespace
}  // namespace belfry::trainers

int main(int argc, char** argv) {
  using namespace belfry::trainers;
  return RunProgram(argc, argv, kUsage, Run);
}
