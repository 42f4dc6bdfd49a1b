// Several devices by hand, as a program of TensorFlow 1 does it: placement, towers, collections, averaged gradients.
//   towers_by_hand [DEVICES]   # cpu:2, gpu:4 ...
#include <cstdio>

#include "multi_gpu_model.h"

using namespace belfry;

std::vector<DeviceName> TowerDevices(const DeviceSet& devices) {
  std::vector<DeviceName> names;
  for (int i : devices.TowerDevices()) names.push_back(devices.device(i).name());
  return names;
}

// The same product on each device, and the sum on the CPU. The log says where each node runs.
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
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, {.log_device_placement = true}));
  ASSIGN_OR_RETURN(const std::vector<Tensor> result, session->Run({sum}));
  std::printf("The sum of a * b over %d devices: %s\n", static_cast<int>(c.size()), result[0].ToString(4).c_str());
  return absl::OkStatus();
}

absl::Status TrainTowers(const DeviceSet& devices) {
  const Points train_points = MakeSpiral(6'000, 1), test_points = MakeSpiral(1'200, 2);
  const std::vector<DeviceName> towers = TowerDevices(devices);
  const int64_t batch_size = 120 / static_cast<int64_t>(towers.size());  // of one tower

  Graph graph(BuiltinOps());
  const Scope root(graph);
  const Node* train_op = MultiGpuModel(root.NameScope("train"), towers);
  // The test model is on one device and has the same variables.
  BuildModel(root.NameScope("test").Device("/cpu:0").ReuseVariables(Reuse::kAlways), 0, kTestModels);
  const Node* initialize = InitializeVariables(root);
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices));  // reports every error in the graph
  RETURN_IF_ERROR(session->RunTarget(initialize));
  for (int epoch = 1; epoch <= 20; ++epoch) {
    ASSIGN_OR_RETURN(const EpochResult train, RunEpoch(*session, train_points, "train", train_op, true, batch_size));
    ASSIGN_OR_RETURN(const EpochResult test, RunEpoch(*session, test_points, "test", nullptr, false, batch_size));
    std::printf("Epoch %d: train loss %.4f, train accuracy %.1f%%; test loss %.4f, test accuracy %.1f%%\n", epoch,
                train.loss, 100 * train.accuracy, test.loss, 100 * test.accuracy);
  }
  return absl::OkStatus();
}

absl::Status Run(const char* spec) {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open(spec));
  RETURN_IF_ERROR(MultiplyOnEachDevice(devices));
  return TrainTowers(devices);
}

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? argv[1] : "cpu:2");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
