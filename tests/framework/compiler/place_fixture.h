// A graph of fake ops, and the devices on which its nodes are placed.
#pragma once

#include <string>

#include "framework/compiler/place.h"
#include "framework/graph/scope.h"
#include "tests/framework/compiler/fake_ops.h"
#include "tests/framework/runtime/fake_device.h"
#include "tests/main/testing.h"

namespace belfry {

class PlaceFixture : public testing::Test {
 protected:
  Output Const(const Scope& scope, const std::string& name = "", DType dtype = DType::kFloat32) {
    return scope.Named(name).Add("Const", {}, {{"value", Tensor::Zeros(dtype, {})}, {"dtype", dtype}});
  }
  Output Source(const Scope& scope, const std::string& op, const std::string& name) {
    return scope.Named(name).Add(op, {}, {{"T", DType::kFloat32}});
  }
  Output Variable(const Scope& scope, const std::string& name) { return Source(scope, "Variable", name); }

  // Places the whole graph; a failure fails the test.
  void Place(const DeviceSet& devices, bool soft = false) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    ASSERT_OK_AND_ASSIGN(placement_, belfry::Place(graph_, devices, {.allow_soft_placement = soft}));
    ASSERT_EQ(static_cast<int>(placement_.device.size()), graph_.size());
    devices_ = &devices;
  }
  absl::Status Error(const DeviceSet& devices, bool soft = false) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    return belfry::Place(graph_, devices, {.allow_soft_placement = soft}).status();
  }
  std::string Where(Output output) const { return Where(*output.node); }
  std::string Where(const Node& node) const {
    return devices_->device(placement_.device[node.id()]).name().ToLocalString();
  }

  const OpRegistry ops_ = FakeOps();
  Graph graph_{ops_};
  const Scope root_{graph_};
  Placement placement_;
  const DeviceSet* devices_ = nullptr;
};

}  // namespace belfry
