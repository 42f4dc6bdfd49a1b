// Placement of nodes that share a device, and soft placement.
#include "absl/strings/str_cat.h"
#include "tests/framework/compiler/place_fixture.h"

namespace belfry {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class PlaceGroupsTest : public PlaceFixture {
 protected:
  // A node with both a device request and a colocation, which no Scope creates.
  const Node* Bound(const std::string& op, std::vector<Output> inputs, const Node& with, const std::string& device) {
    const NodeFacts facts{.device = *DeviceName::Parse(device), .device_text = device, .colocated_with = {&with}};
    return ValueOf(graph_.AddNode({.op = op,
                                   .name = absl::StrCat(op, "_on_", with.name()),
                                   .inputs = std::move(inputs),
                                   .facts = std::make_shared<const NodeFacts>(facts),
                                   .location = {"train.cc", 7}}));
  }
};

TEST_F(PlaceGroupsTest, ChainsOfColocationShareOneDevice) {
  const Output x = Const(root_), a = root_.Add("Relu", {x});
  const Output b = root_.ColocateWith(*a.node).Add("Relu", {x});
  const Output c = root_.ColocateWith(*b.node).Add("CpuOnly", {x});
  const DeviceSet devices = FakeDevices(2, 2);
  Place(devices);
  EXPECT_EQ(Where(a), "CPU:0") << "the last of the chain has a CPU kernel only";
  EXPECT_EQ(Where(b), "CPU:0");
  EXPECT_EQ(Where(c), "CPU:0");
}

TEST_F(PlaceGroupsTest, ARequestHoldsForTheWholeGroup) {
  const Output x = Const(root_), a = root_.Add("Relu", {x});
  const Node* b = Bound("Relu", {x}, *a.node, "/gpu:1");
  const Node* c = Bound("Relu", {x}, *a.node, "/device:GPU");
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  EXPECT_EQ(Where(a), "GPU:1");
  EXPECT_EQ(Where(*b), "GPU:1");
  EXPECT_EQ(Where(*c), "GPU:1");
}

TEST_F(PlaceGroupsTest, ConflictingRequestsListTheMembers) {
  const Output x = Const(root_), a = root_.Device("/gpu:0").Named("a").Add("Relu", {x});
  Bound("Relu", {x}, *a.node, "/gpu:1");
  const DeviceSet devices = FakeDevices(1, 2);
  const absl::Status status = Error(devices);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string text(status.message());
  EXPECT_THAT(text, StartsWith("Cannot assign a device to node 'Relu_on_a': Cannot colocate nodes 'a' and 'Relu_on_a': "
                               "Cannot merge devices with incompatible ids: '/device:GPU:0' and '/device:GPU:1'"));
  EXPECT_THAT(text, HasSubstr("(train.cc:7)"));
  EXPECT_THAT(text, HasSubstr("\n  a (Relu) /gpu:0"));
  EXPECT_THAT(text, HasSubstr("\n  Relu_on_a (Relu) /gpu:1"));
  EXPECT_THAT(text, EndsWith("]]"));

  Place(devices, true);
  EXPECT_EQ(Where(a), "GPU:0");
  EXPECT_THAT(placement_.notes, ElementsAre(HasSubstr("'Relu_on_a' runs on /job:localhost/replica:0/task:0/gpu:0, not "
                                                      "on '/gpu:1'")));
}

TEST_F(PlaceGroupsTest, ConflictingTypesLeaveTheChoiceToSoftPlacement) {
  const Output x = Const(root_), a = root_.Device("/cpu:0").Named("a").Add("Relu", {x});
  const Node* b = Bound("Relu", {x}, *a.node, "/gpu:1");
  const DeviceSet devices = FakeDevices(1, 2);
  EXPECT_THAT(Error(devices).message(), HasSubstr("incompatible types: '/device:CPU:0'"));
  Place(devices, true);
  EXPECT_EQ(Where(a), "GPU:0");
  EXPECT_EQ(Where(*b), "GPU:0");
  EXPECT_EQ(placement_.notes.size(), 2u);
}

TEST_F(PlaceGroupsTest, ConflictingJobsAreAlwaysAnError) {
  const Output x = Const(root_), a = root_.Device("/job:localhost").Add("Relu", {x});
  Bound("Relu", {x}, *a.node, "/job:worker");
  for (bool soft : {false, true}) {
    EXPECT_THAT(Error(FakeDevices(1, 2), soft).message(), HasSubstr("incompatible jobs"));
  }
}

DeviceSet TwoTasks() {
  std::vector<std::unique_ptr<Device>> list;
  for (int task = 0; task < 2; ++task) {
    list.push_back(MakeFakeDevice("CPU", 0, "", task));
    list.push_back(MakeFakeDevice("GPU", 0, "", task));
  }
  return DeviceSet(std::move(list));
}

TEST_F(PlaceGroupsTest, AnUpdateForAnotherTaskIsAlwaysAnError) {
  const Output x = Const(root_), v = Variable(root_.Device("/task:0/gpu:0"), "v");
  const Output same = root_.Device("/task:0/cpu:0").Add("Assign", {v, x});
  const DeviceSet devices = TwoTasks();
  Place(devices);
  EXPECT_EQ(placement_.device[same.node->id()], placement_.device[v.node->id()]);
  root_.Device("/task:1/gpu:0").Named("up").Add("Assign", {v, x});
  for (bool soft : {false, true}) {
    EXPECT_THAT(Error(devices, soft).message(),
                HasSubstr("Cannot colocate nodes 'v' and 'up': Cannot merge devices with incompatible tasks"));
    auto later = belfry::Place(graph_, devices, {.allow_soft_placement = soft}, placement_);
    EXPECT_THAT(later.status().message(), HasSubstr("incompatible tasks"));
  }
}

// Requested or placed before, variables stay where they are.
TEST_F(PlaceGroupsTest, ColocatedUpdatesOfVariablesOnDifferentDevices) {
  const Output x = Const(root_), v = Variable(root_.Device("/cpu:0"), "v"), w = Variable(root_.Device("/gpu:0"), "w");
  const DeviceSet devices = FakeDevices(1, 1);
  Place(devices);
  const Placement before = placement_;
  const Output a = root_.Named("a").Add("Assign", {v, x});
  const Output b = root_.ColocateWith(*a.node).Named("b").Add("Assign", {w, x});
  for (const Placement& placed : {Placement(), before}) {
    const auto hard = belfry::Place(graph_, devices, {}, placed);
    EXPECT_THAT(hard.status().message(), HasSubstr("Cannot colocate nodes 'a' and 'b'"));
    ASSERT_OK_AND_ASSIGN(placement_, belfry::Place(graph_, devices, {.allow_soft_placement = true}, placed));
    EXPECT_EQ(Where(v), "CPU:0");
    EXPECT_EQ(Where(a), "CPU:0");
    EXPECT_EQ(Where(w), "GPU:0");
    EXPECT_EQ(Where(b), "GPU:0");
    EXPECT_THAT(placement_.notes, ElementsAre(HasSubstr("'b' is not colocated with 'a'")));
  }
}

TEST_F(PlaceGroupsTest, ColocationWithoutACommonType) {
  const Output x = Const(root_), a = root_.Named("a").Add("CpuOnly", {x});
  const Output b = root_.ColocateWith(*a.node).Named("b").Add("GpuOnly", {x});
  const DeviceSet devices = FakeDevices(1, 1);
  EXPECT_THAT(Error(devices).message(), HasSubstr("Cannot colocate nodes 'a' and 'b': no device type can run both"));
  Place(devices, true);
  EXPECT_EQ(Where(a), "CPU:0");
  EXPECT_EQ(Where(b), "GPU:0");
  EXPECT_THAT(placement_.notes, ElementsAre(HasSubstr("'b' is not colocated with 'a'")));
}

TEST_F(PlaceGroupsTest, AnUpdateLivesWithItsVariable) {
  const Output x = Const(root_), v = Variable(root_.Device("/gpu:1"), "v");
  const Output free = root_.Add("Assign", {v, x});
  const Output elsewhere = root_.Device("/cpu:0").WithLocation({"train.cc", 9}).Named("up").Add("Assign", {v, x});
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  EXPECT_EQ(Where(v), "GPU:1");
  EXPECT_EQ(Where(free), "GPU:1");
  EXPECT_EQ(Where(elsewhere), "GPU:1");
  EXPECT_THAT(placement_.notes,
              ElementsAre("Node 'up' runs on /job:localhost/replica:0/task:0/gpu:1, not on '/cpu:0' "
                          "as requested (train.cc:9): it updates the variable 'v', which is placed there."));
}

TEST_F(PlaceGroupsTest, AVariableWithoutRequestTakesItsUpdates) {
  const Output x = Const(root_), v = Variable(root_, "v"), w = Variable(root_.Device("/device:GPU"), "w");
  root_.Device("/gpu:1").Add("Assign", {v, x});
  root_.Device("/gpu:1").Add("Assign", {w, x});
  root_.Device("/gpu:0").Named("late").Add("Assign", {v, x});
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  EXPECT_EQ(Where(v), "GPU:1");
  EXPECT_EQ(Where(w), "GPU:1") << "the more specific request holds";
  EXPECT_THAT(placement_.notes, ElementsAre(HasSubstr("'late'")));
}

TEST_F(PlaceGroupsTest, UpdatesDecideByTheirKernels) {
  const Output x = Const(root_), v = Variable(root_, "v");
  root_.Add("CpuAssign", {v, x});
  const DeviceSet devices = FakeDevices(1, 1);
  Place(devices);
  EXPECT_EQ(Where(v), "CPU:0");
  root_.Named("wrong").Add("GpuAssign", {v, x});
  for (bool soft : {false, true}) {
    const std::string text(Error(devices, soft).message());
    EXPECT_THAT(text, StartsWith("Cannot assign a device to node 'wrong': Cannot colocate nodes 'v' and 'wrong'"));
    EXPECT_THAT(text, HasSubstr("no device type can run both"));
  }
}

TEST_F(PlaceGroupsTest, AVariableOnADeviceWithoutItsUpdatesKernel) {
  const Output x = Const(root_), v = Variable(root_.Device("/gpu:0").WithLocation({"train.cc", 3}), "v");
  root_.Add("CpuAssign", {v, x});
  const DeviceSet devices = FakeDevices(1, 1);
  const std::string text(Error(devices).message());
  EXPECT_THAT(text, StartsWith("Cannot assign a device to node 'v': Could not satisfy explicit device specification "
                               "'/gpu:0'"));
  EXPECT_THAT(text, HasSubstr("shares a device with"));
  EXPECT_THAT(text, HasSubstr("train.cc:3"));
  Place(devices, true);
  EXPECT_EQ(Where(v), "CPU:0");
  EXPECT_THAT(placement_.notes, ElementsAre(HasSubstr("'v' runs on /job:localhost/replica:0/task:0/cpu:0")));
}

TEST_F(PlaceGroupsTest, VariablesAreNotMovedForOneAnother) {
  const Output v = Variable(root_.Device("/gpu:0"), "v"), w = Variable(root_.Device("/gpu:1"), "w");
  root_.Named("both").Add("Update2", {v, w});
  for (bool soft : {false, true}) {
    EXPECT_THAT(Error(FakeDevices(1, 2), soft).message(),
                HasSubstr("Cannot colocate nodes 'w' and 'both': Cannot merge devices with incompatible ids"));
  }
}

TEST_F(PlaceGroupsTest, AVariablesRequestCountsMoreThanAnUpdatesOwn) {
  const Output x = Const(root_), v = Variable(root_, "v"), w = Variable(root_.Device("/gpu:1"), "w");
  root_.Device("/gpu:0").Add("Assign", {v, x});
  const Output both = root_.Add("Update2", {v, w});
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices);
  EXPECT_EQ(Where(v), "GPU:1");
  EXPECT_EQ(Where(w), "GPU:1");
  EXPECT_EQ(Where(both), "GPU:1");
}

TEST_F(PlaceGroupsTest, SoftPlacementOfAMissingId) {
  const Scope there = root_.Device("/gpu:11").WithLocation({"train.cc", 5});
  const Output a = Const(there, "a"), b = there.Named("b").Add("Relu", {a});
  const Output cpu = Const(root_.Device("/cpu:7"), "c");
  const DeviceSet devices = FakeDevices(2, 2);
  Place(devices, true);
  EXPECT_EQ(Where(a), "GPU:0");
  EXPECT_EQ(Where(b), "GPU:0");
  EXPECT_EQ(Where(cpu), "CPU:0");
  EXPECT_THAT(placement_.notes,
              ElementsAre(HasSubstr("'c' runs on /job:localhost/replica:0/task:0/cpu:0, not on '/cpu:7'"),
                          "Node 'a' and 1 more run on /job:localhost/replica:0/task:0/gpu:0, not on '/gpu:11' as "
                          "requested (train.cc:5): there is no such device."));
}

TEST_F(PlaceGroupsTest, SoftPlacementWithoutGpus) {
  const Output a = Const(root_.Device("/gpu:2"), "a");
  const DeviceSet devices = FakeDevices(2, 0);
  EXPECT_THAT(Error(devices).message(), HasSubstr("there is no such device"));
  Place(devices, true);
  EXPECT_EQ(Where(a), "CPU:0");
}

TEST_F(PlaceGroupsTest, SoftPlacementOfWhatHasNoKernelThere) {
  const Output x = Const(root_);
  const Output y = root_.Device("/gpu:1").WithLocation({"train.cc", 5}).Named("y").Add("CpuOnly", {x});
  const DeviceSet devices = FakeDevices(1, 2);
  const std::string text(Error(devices).message());
  EXPECT_THAT(text,
              StartsWith("Cannot assign a device to node 'y': Could not satisfy explicit device specification "
                         "'/gpu:1' because no supported kernel for GPU devices is available: op CpuOnly has kernels "
                         "for CPU (float32, float64, int32)"));
  EXPECT_THAT(text, HasSubstr("train.cc:5"));
  EXPECT_THAT(text, EndsWith("[[Node: y = CpuOnly[T=DT_FLOAT, _device=\"/gpu:1\"](Const)]]"));
  Place(devices, true);
  EXPECT_EQ(Where(y), "CPU:0");
  EXPECT_THAT(placement_.notes, ElementsAre(HasSubstr("no supported kernel for GPU devices")));
}

TEST_F(PlaceGroupsTest, AnUnknownJobIsAlwaysAnError) {
  Const(root_.Device("/job:worker/gpu:0"), "a");
  for (bool soft : {false, true}) {
    EXPECT_THAT(std::string(Error(FakeDevices(1, 2), soft).message()),
                StartsWith("Cannot assign a device to node 'a': Could not satisfy explicit device specification "
                           "'/job:worker/gpu:0'"));
  }
}

TEST_F(PlaceGroupsTest, AnOpWithoutAnyKernel) {
  root_.WithLocation({"train.cc", 8}).Add("Nowhere", {}, {{"T", DType::kFloat32}});
  for (bool soft : {false, true}) {
    const std::string text(Error(FakeDevices(1, 1), soft).message());
    EXPECT_THAT(text,
                StartsWith("Cannot assign a device to node 'Nowhere': No kernel of op Nowhere for float32 runs on any "
                           "device: op Nowhere has no kernels"));
    EXPECT_THAT(text, HasSubstr("train.cc:8"));
  }
}

TEST_F(PlaceGroupsTest, AGpuOpWithoutGpus) {
  Source(root_, "GpuSource", "s");
  EXPECT_THAT(Error(FakeDevices(1, 0)).message(), HasSubstr("op GpuSource has kernels for GPU (float32)"));
}

TEST_F(PlaceGroupsTest, NoDevices) {
  Const(root_);
  EXPECT_EQ(Error(DeviceSet()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(PlaceGroupsTest, MalformedRequestsFailWhereTheyAreMade) {
  Const(root_.Device("/gpu"));
  EXPECT_THAT(graph_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'/gpu'")));
  EXPECT_THAT(graph_.status().message(), HasSubstr("place_groups_test.cc:"));
}

TEST_F(PlaceGroupsTest, NothingIsNotedWhereAllWishesAreMet) {
  const Output x = Const(root_.Device("/gpu:1"));
  root_.Device("/gpu:*").Add("Relu", {x});
  const DeviceSet devices = FakeDevices(1, 2);
  Place(devices, true);
  EXPECT_THAT(placement_.notes, IsEmpty());
  EXPECT_THAT(placement_.device, Not(IsEmpty()));
}

}  // namespace
}  // namespace belfry
