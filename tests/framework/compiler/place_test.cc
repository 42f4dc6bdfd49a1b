#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "framework/base/steady_time.h"
#include "tests/framework/compiler/place_fixture.h"

namespace belfry {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class PlaceTest : public PlaceFixture {};

Tensor OneToSix(const Shape& shape) { return Tensor::Of<float>({1, 2, 3, 4, 5, 6}, shape); }

// c = a * b, as in scenario S2, in one scope.
Output Product(const Scope& scope) {
  const Output a = scope.Named("a").Add("Const", {}, {{"value", OneToSix({2, 3})}, {"dtype", DType::kFloat32}});
  const Output b = scope.Named("b").Add("Const", {}, {{"value", OneToSix({3, 2})}, {"dtype", DType::kFloat32}});
  return scope.Add("MatMul", {a, b});
}

TEST_F(PlaceTest, LogsTheMappingAndTheNodes) {
  std::vector<std::unique_ptr<Device>> list;
  list.push_back(MakeFakeDevice("CPU", 0));
  list.push_back(MakeFakeDevice("GPU", 0, "device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0"));
  const DeviceSet devices(std::move(list));
  Product(root_);
  Place(devices);
  EXPECT_EQ(PlacementText(graph_, devices, placement_),
            "Device mapping:\n"
            "/job:localhost/replica:0/task:0/gpu:0 -> device: 0, name: Tesla K40c, pci bus id: 0000:05:00.0\n"
            "b: /job:localhost/replica:0/task:0/gpu:0\n"
            "a: /job:localhost/replica:0/task:0/gpu:0\n"
            "MatMul: /job:localhost/replica:0/task:0/gpu:0\n");
  EXPECT_THAT(placement_.notes, IsEmpty());
}

TEST_F(PlaceTest, MissingDeviceNamesNodeDevicesAndLine) {
  Product(root_.Device("/gpu:2").WithLocation({"model.cc", 12}));
  const absl::Status status = Error(FakeDevices(1, 2));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string text(status.message());
  EXPECT_THAT(text, StartsWith("Cannot assign a device to node 'b': Could not satisfy explicit device specification "
                               "'/gpu:2'"));
  EXPECT_THAT(text, HasSubstr("/job:localhost/replica:0/task:0/cpu:0, /job:localhost/replica:0/task:0/gpu:0, "
                              "/job:localhost/replica:0/task:0/gpu:1"));
  EXPECT_THAT(text, HasSubstr("model.cc:12"));
  EXPECT_THAT(text, EndsWith("[[Node: b = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [3,2] values: 1 2 "
                             "3...>, _device=\"/gpu:2\"]()]]"));
}

TEST_F(PlaceTest, SeveralDevicesByHand) {
  std::vector<Output> c;
  for (const char* device : {"/gpu:0", "/gpu:1"}) {
    const Scope scope = root_.Device(device);
    c.push_back(scope.Add("MatMul", {Const(scope), Const(scope)}));
  }
  root_.Device("/cpu:0").Add("AddN", c);
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  const std::string text = PlacementText(graph_, devices, placement_);
  EXPECT_THAT(text, EndsWith("Const_3: /job:localhost/replica:0/task:0/gpu:1\n"
                             "Const_2: /job:localhost/replica:0/task:0/gpu:1\n"
                             "MatMul_1: /job:localhost/replica:0/task:0/gpu:1\n"
                             "Const_1: /job:localhost/replica:0/task:0/gpu:0\n"
                             "Const: /job:localhost/replica:0/task:0/gpu:0\n"
                             "MatMul: /job:localhost/replica:0/task:0/gpu:0\n"
                             "AddN: /job:localhost/replica:0/task:0/cpu:0\n"));
}

TEST_F(PlaceTest, PinsHoldOnlyForWhatIsPinned) {
  const Scope cpu = root_.Device("/cpu:0");
  const Output a = Const(cpu), b = Const(cpu), c = root_.Add("MatMul", {a, b});
  const DeviceSet devices = FakeDevices(2, 2);
  Place(devices);
  EXPECT_EQ(Where(a), "CPU:0");
  EXPECT_EQ(Where(b), "CPU:0");
  EXPECT_EQ(Where(c), "GPU:0");
}

TEST_F(PlaceTest, FullAndPartialRequests) {
  const Output full = Const(root_.Device("/job:localhost/replica:0/task:0/device:GPU:1"));
  const Output type = Const(root_.Device("/device:CPU"));
  const Output any_id = Const(root_.Device("/gpu:*"));
  const Output id_only = Const(root_.Device("/device:*:1"));
  const Output job_only = Const(root_.Device("/job:localhost"));
  const DeviceSet devices = FakeDevices(2, 2);
  Place(devices);
  EXPECT_EQ(Where(full), "GPU:1");
  EXPECT_EQ(Where(type), "CPU:0");
  EXPECT_EQ(Where(any_id), "GPU:0");
  EXPECT_EQ(Where(id_only), "GPU:1");
  EXPECT_EQ(Where(job_only), "GPU:0");
}

TEST_F(PlaceTest, KernelsDecideByDtype) {
  const Output x = Const(root_, "x"), d = Const(root_, "d", DType::kFloat64);
  const Output on_gpu = root_.Add("Relu", {x}), on_cpu = root_.Add("Relu", {d});
  const Output cpu_only = root_.Add("CpuOnly", {x});
  const DeviceSet devices = FakeDevices(1, 1);
  Place(devices);
  EXPECT_EQ(Where(on_gpu), "GPU:0");
  EXPECT_EQ(Where(on_cpu), "CPU:0");
  EXPECT_EQ(Where(cpu_only), "CPU:0");
}

TEST_F(PlaceTest, OrderOfDevicesDoesNotMatter) {
  const Output x = Const(root_), y = root_.Add("Relu", {x}), z = root_.Add("CpuOnly", {y});
  std::mt19937 random{TestSeed()};
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Device>> list;
    for (int i = 0; i < 12; ++i) {
      list.push_back(MakeFakeDevice("CPU", i));
      list.push_back(MakeFakeDevice("GPU", i));
    }
    std::shuffle(list.begin(), list.end(), random);
    const DeviceSet devices(std::move(list));
    EXPECT_EQ(devices.device(10).name().ToLocalString(), "CPU:10");
    Place(devices);
    EXPECT_EQ(Where(x), "GPU:0");
    EXPECT_EQ(Where(y), "GPU:0");
    EXPECT_EQ(Where(z), "CPU:0");
  }
}

TEST_F(PlaceTest, GeneratorsGoToTheirConsumers) {
  const Output fed = Source(root_, "Placeholder", "fed"), shared = Const(root_, "shared"),
               unused = Const(root_, "unused");
  const Output pinned = Const(root_.Device("/cpu:0"), "pinned"), bound = Source(root_, "GpuSource", "bound");
  const Output variable = Variable(root_, "variable");
  const Scope gpu1 = root_.Device("/gpu:1"), cpu = root_.Device("/cpu:0");
  gpu1.Add("AddN", {fed, fed, shared, pinned, variable});
  cpu.Add("AddN", {shared, bound});
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  EXPECT_EQ(Where(fed), "GPU:1");
  EXPECT_EQ(Where(shared), "GPU:0") << "its consumers disagree";
  EXPECT_EQ(Where(unused), "GPU:0");
  EXPECT_EQ(Where(pinned), "CPU:0") << "a request counts more than consumers";
  EXPECT_EQ(Where(bound), "GPU:0") << "its consumer's device has no kernel";
  EXPECT_EQ(Where(variable), "GPU:0") << "a variable does not follow";
}

TEST_F(PlaceTest, WhatReadsNoElementsFollowsItsInput) {
  const Output x = root_.Device("/gpu:1").Add("GpuSource", {}, {{"T", DType::kFloat32}});
  const Output shape = root_.Add("Shape", {x}), view = root_.Add("Reshape", {x}), twice = root_.Add("Reshape", {view});
  const Output pinned = root_.Device("/cpu:0").Add("Shape", {x});
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  EXPECT_EQ(Where(shape), "GPU:1");
  EXPECT_EQ(Where(view), "GPU:1");
  EXPECT_EQ(Where(twice), "GPU:1");
  EXPECT_EQ(Where(pinned), "CPU:0");
}

TEST_F(PlaceTest, AFeedThroughAViewGoesToTheConsumer) {
  const Output fed = Source(root_, "Placeholder", "fed"), view = root_.Add("Reshape", {fed});
  const Output shape = root_.Device("/cpu:0").Add("Shape", {fed});
  const Output y = root_.Device("/gpu:1").Add("Relu", {view});
  const Output idle = Source(root_, "Placeholder", "idle"), idle_view = root_.Add("Reshape", {idle});
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  EXPECT_EQ(Where(y), "GPU:1");
  EXPECT_EQ(Where(view), "GPU:1");
  EXPECT_EQ(Where(fed), "GPU:1") << "the node on the CPU only looks at its shape";
  EXPECT_EQ(Where(shape), "CPU:0");
  EXPECT_EQ(Where(idle_view), Where(idle));
}

TEST_F(PlaceTest, ControlInputsDoNotMove) {
  const Output x = Const(root_.Device("/gpu:1"));
  const Node* group = root_.ControlDependencies({x}).AddNode("NoOp", {});
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  EXPECT_EQ(Where(*group), "GPU:0");
}

TEST_F(PlaceTest, WhatIsPlacedStays) {
  const Output x = Const(root_, "x"), variable = Variable(root_, "v");
  const DeviceSet devices = FakeDevices(1, 3);
  Place(devices);
  EXPECT_EQ(Where(variable), "GPU:0");
  placement_.device[x.node->id()] = devices.Find(*DeviceName::Parse("/cpu:0"));
  placement_.device[variable.node->id()] = devices.Find(*DeviceName::Parse("/gpu:1"));
  const int before = graph_.size();
  const Output update = root_.Device("/gpu:2").Add("Assign", {variable, x});
  const Output view = root_.Add("Reshape", {x}), later = Const(root_, "later");
  root_.Device("/gpu:2").Add("Relu", {later});
  ASSERT_OK_AND_ASSIGN(placement_, belfry::Place(graph_, devices, {}, placement_));
  EXPECT_EQ(Where(x), "CPU:0");
  EXPECT_EQ(Where(variable), "GPU:1");
  EXPECT_EQ(Where(update), "GPU:1");
  EXPECT_EQ(Where(view), "CPU:0");
  EXPECT_EQ(Where(later), "GPU:2");
  EXPECT_EQ(PlacementText(graph_, devices, placement_, before).find("\nx: "), std::string::npos);
  EXPECT_THAT(PlacementText(graph_, devices, placement_, before), HasSubstr("\nlater: "));
}

TEST_F(PlaceTest, LargeGraphsInNearLinearTime) {
  const auto seconds = [&](int layers) {
    Graph graph(ops_);
    const Scope root(graph);
    for (int tower = 0; tower < 10; ++tower) {
      const Scope scope = root.Device(absl::StrCat("/gpu:", tower));
      Output x = scope.Add("GpuSource", {}, {{"T", DType::kFloat32}});
      for (int layer = 0; layer < layers; ++layer) {
        const Output v = scope.Add("Variable", {}, {{"T", DType::kFloat32}});
        x = scope.Add("MatMul", {x, v});
        scope.ColocateWith(*v.node).Add("Assign", {v, x});
      }
    }
    const DeviceSet devices = FakeDevices(1, 10);
    const absl::Time begin = SteadyNow();
    auto placement = belfry::Place(graph, devices, {});
    const double elapsed = absl::ToDoubleSeconds(SteadyNow() - begin);
    EXPECT_TRUE(placement.ok()) << placement.status();
    RecordProperty(absl::StrCat("seconds_for_", graph.size(), "_nodes"), std::to_string(elapsed));
    return elapsed;
  };
  seconds(30);
  const double small = seconds(333), large = seconds(3333);
  EXPECT_LT(large, std::max(60 * small, 2.0)) << "10,000 nodes: " << small << " s";
}

}  // namespace
}  // namespace belfry
