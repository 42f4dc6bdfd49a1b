#include "framework/graph/graph_proto.h"

#include "framework/graph/scope.h"
#include "framework/io/graph.pb.h"
#include "ops/array.h"
#include "ops/builtin_ops.h"
#include "ops/math.h"
#include "ops/nn.h"
#include "tests/framework/io/event_testing.h"

namespace belfry {
namespace {

using testing::ElementsAre;

class GraphProtoTest : public testing::Test {
 protected:
  void Encode(const DeviceNames& devices = nullptr) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    ASSERT_TRUE(proto_.ParseFromString(GraphToProto(graph_, devices)));
    ASSERT_EQ(proto_.node_size(), graph_.size());
  }
  const proto::NodeDef& Find(const std::string& name) const {
    for (const proto::NodeDef& node : proto_.node()) {
      if (node.name() == name) return node;
    }
    ADD_FAILURE() << "no node " << name;
    return proto::NodeDef::default_instance();
  }

  Graph graph_{BuiltinOps()};
  const Scope root_{graph_};
  proto::GraphDef proto_;
};

TEST_F(GraphProtoTest, NodesWithEdgesAndDevices) {
  const Scope tower = root_.NameScope("tower_0").Device("/gpu:1");
  const Output a = ops::Placeholder(tower.Named("a"), DType::kFloat32, {-1, 4});
  const std::vector<Output> halves = ops::Split(tower, a, 1, 2);
  const Output sum = ops::Add(tower.ControlDependencies({a}).Named("sum"), halves[1], halves[0]);
  ops::Relu(root_.ColocateWith(*sum.node).Named("relu"), sum);
  Encode();
  const proto::NodeDef& node = Find("tower_0/sum");
  EXPECT_EQ(node.op(), "Add");
  EXPECT_EQ(node.device(), "/device:GPU:1");
  EXPECT_THAT(node.input(), ElementsAre("tower_0/Split:1", "tower_0/Split", "^tower_0/a"));
  EXPECT_EQ(node.attr().at("T").type(), proto::DT_FLOAT);
  const proto::TensorShapeProto& shape = node.attr().at("_output_shapes").list().shape(0);
  ASSERT_EQ(shape.dim_size(), 2);
  EXPECT_EQ(shape.dim(0).size(), -1);
  EXPECT_EQ(shape.dim(1).size(), 2);
  EXPECT_EQ(Find("tower_0/Split").attr().at("_output_shapes").list().shape_size(), 2);
  EXPECT_THAT(Find("relu").attr().at("_class").list().s(), ElementsAre("loc:@tower_0/sum"));
}

TEST_F(GraphProtoTest, DevicesAreThoseGiven) {
  ops::Const(root_.Named("c"), 1.f);
  Encode([](const Node& node) { return "on " + node.name(); });
  EXPECT_EQ(Find("c").device(), "on c");
}

TEST_F(GraphProtoTest, SmallValuesAreInIt) {
  ops::Const(root_.Named("small"), {int64_t{1}, int64_t{-1}});
  ops::Const(root_.Named("large"), Tensor::Zeros(DType::kUInt8, {5, 13}));
  Encode();
  const proto::TensorProto& small = Find("small").attr().at("value").tensor();
  EXPECT_EQ(small.dtype(), proto::DT_INT64);
  EXPECT_EQ(small.tensor_content(), std::string("\1\0\0\0\0\0\0\0", 8) + std::string(8, '\xff'));
  const proto::TensorProto& large = Find("large").attr().at("value").tensor();
  EXPECT_EQ(large.tensor_content(), "");
  EXPECT_EQ(large.tensor_shape().dim(1).size(), 13);
}

TEST_F(GraphProtoTest, EveryDTypeHasItsNumber) {
  for (const DType dtype : kAllDTypes) {
    ops::Placeholder(root_.Named(std::string(DTypeName(dtype))), dtype, {});
  }
  Encode();
  for (const DType dtype : kAllDTypes) {
    const proto::NodeDef& node = Find(std::string(DTypeName(dtype)));
    EXPECT_EQ(proto::DataType_Name(node.attr().at("dtype").type()), std::string(TensorFlowName(dtype)));
  }
}

// Bytes that TensorBoard's own classes serialised.
TEST(GraphProto, FieldsHaveThePublishedNumbers) {
  proto::GraphDef graph;
  ASSERT_TRUE(
      graph.ParseFromString(io::FromHex("0ab3010a016e12024f701a016d1a025e6322062f6370753a302a070a01541202300"
                                        "e2a070a0162120228012a0f0a0163120a0a0812066c6f63"
                                        "3a406d2a0a0a01661205250000003f2a100a0169120b18fdffffffffffffffff012"
                                        "a0b0a016c12060a041a0201022a0d0a016f12080a063a04"
                                        "120208042a1c0a05736861706512133a11120b08ffffffffffffffffff011202080"
                                        "32a0b0a01731206120453414d452a130a0176120e420c08"
                                        "092208313233343536373822020818")));
  EXPECT_EQ(graph.versions().producer(), 24);
  ASSERT_EQ(graph.node_size(), 1);
  const proto::NodeDef& node = graph.node(0);
  EXPECT_EQ(node.name(), "n");
  EXPECT_EQ(node.op(), "Op");
  EXPECT_EQ(node.device(), "/cpu:0");
  EXPECT_THAT(node.input(), ElementsAre("m", "^c"));
  const auto& attr = node.attr();
  EXPECT_TRUE(attr.at("b").b());
  EXPECT_EQ(attr.at("i").i(), -3);
  EXPECT_EQ(attr.at("f").f(), 0.5f);
  EXPECT_EQ(attr.at("s").s(), "SAME");
  EXPECT_EQ(attr.at("T").type(), proto::DT_BFLOAT16);
  EXPECT_EQ(attr.at("shape").shape().dim(0).size(), -1);
  EXPECT_EQ(attr.at("shape").shape().dim(1).size(), 3);
  EXPECT_EQ(attr.at("v").tensor().dtype(), proto::DT_INT64);
  EXPECT_EQ(attr.at("v").tensor().tensor_content(), "12345678");
  EXPECT_THAT(attr.at("l").list().i(), ElementsAre(1, 2));
  EXPECT_THAT(attr.at("c").list().s(), ElementsAre("loc:@m"));
  EXPECT_EQ(attr.at("o").list().shape(0).dim(0).size(), 4);
}

}  // namespace
}  // namespace belfry
