#include "models/onnx/export.h"

#include <map>
#include <set>

#include "framework/base/status.h"
#include "framework/io/file.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/networks/cifar_net.h"
#include "models/networks/resnet.h"
#include "models/networks/transformer.h"
#include "models/onnx/message_size_impl.h"
#include "models/onnx/onnx.pb.h"
#include "ops/nn.h"
#include "ops/random.h"
#include "tests/models/networks/saved_networks.h"
#include "tests/models/onnx/onnx_test.h"

namespace belfry::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

class OnnxExport : public OnnxTest {
 protected:
  onnx::ModelProto Export(const std::vector<NamedOutput>& inputs, const std::vector<NamedOutput>& outputs) {
    onnx::ModelProto proto;
    const absl::StatusOr<SavedModel> model = Save(inputs, outputs);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return proto;
    const std::string path = File("model.onnx");
    const absl::StatusOr<OnnxSummary> summary = ExportOnnx(*model, path);
    EXPECT_TRUE(summary.ok()) << summary.status();
    const absl::StatusOr<std::string> bytes = io::ReadFile(path);
    EXPECT_TRUE(bytes.ok() && proto.ParseFromString(*bytes)) << bytes.status();
    if (summary.ok() && bytes.ok()) {
      EXPECT_EQ(summary->nodes, proto.graph().node_size());
      EXPECT_EQ(summary->bytes, static_cast<int64_t>(bytes->size()));
    }
    return proto;
  }
  std::string ErrorOf(const std::vector<NamedOutput>& inputs, const std::vector<NamedOutput>& outputs) {
    const absl::StatusOr<SavedModel> model = Save(inputs, outputs);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? std::string(ExportOnnx(*model, File("model.onnx")).status().message()) : "";
  }
};

std::vector<std::string> DimsOf(const onnx::ValueInfoProto& value) {
  std::vector<std::string> dims;
  for (const auto& dim : value.type().tensor_type().shape().dim()) {
    dims.push_back(dim.dim_param().empty() ? absl::StrCat(dim.dim_value()) : dim.dim_param());
  }
  return dims;
}

int Count(const onnx::ModelProto& model, const std::string& op) {
  const auto& nodes = model.graph().node();
  return static_cast<int>(
      std::count_if(nodes.begin(), nodes.end(), [&](const onnx::NodeProto& node) { return node.op_type() == op; }));
}

std::map<std::string, onnx::TensorProto> InitializersOf(const onnx::ModelProto& model) {
  std::map<std::string, onnx::TensorProto> initializers;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) initializers[tensor.name()] = tensor;
  return initializers;
}

class OnnxNetworks : public OnnxExport, public testing::WithParamInterface<Network> {};

TEST_P(OnnxNetworks, AreWellFormed) {
  const Network::Ends ends = GetParam().build(scope_);
  const onnx::ModelProto model = Export(ends.inputs, ends.outputs);
  const onnx::GraphProto& graph = model.graph();
  ASSERT_EQ(model.opset_import_size(), 1);
  EXPECT_EQ(model.opset_import(0).domain(), "");
  EXPECT_EQ(model.opset_import(0).version(), kOnnxOpset);
  ASSERT_EQ(graph.input_size(), static_cast<int>(ends.inputs.size()));
  ASSERT_EQ(graph.output_size(), static_cast<int>(ends.outputs.size()));
  std::set<std::string> values = {""}, used;
  for (int i = 0; i < graph.input_size(); ++i) {
    const auto& [name, value] = ends.inputs[static_cast<size_t>(i)];
    EXPECT_EQ(graph.input(i).name(), name);
    EXPECT_TRUE(values.insert(name).second);
    const std::vector<std::string> dims = DimsOf(graph.input(i));
    ASSERT_EQ(static_cast<int>(dims.size()), value.shape().rank());
    EXPECT_EQ(dims[0], "N");
  }
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    EXPECT_TRUE(values.insert(tensor.name()).second) << tensor.name();
  }
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& input : node.input()) EXPECT_TRUE(values.contains(input)) << node.name() << ": " << input;
    for (const std::string& output : node.output()) EXPECT_TRUE(values.insert(output).second) << output;
    used.insert(node.input().begin(), node.input().end());
  }
  for (int i = 0; i < graph.output_size(); ++i) {
    EXPECT_EQ(graph.output(i).name(), ends.outputs[static_cast<size_t>(i)].name);
    EXPECT_TRUE(values.contains(graph.output(i).name()));
    EXPECT_EQ(DimsOf(graph.output(i))[0], "N");
  }
  for (const onnx::TensorProto& tensor : graph.initializer())
    EXPECT_TRUE(used.contains(tensor.name())) << tensor.name();
}

INSTANTIATE_TEST_SUITE_P(All, OnnxNetworks, testing::ValuesIn(BundledNetworks()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(OnnxExport, KeepsNamesAndOpenExtents) {
  const Output tokens = ops::Placeholder(scope_, DType::kInt64, {Shape::kUnknown, Shape::kUnknown});
  const Output logits = Transformer(
      scope_, tokens, {.vocabulary = 30, .length = 8, .layers = 1, .heads = 2, .width = 8, .training = false});
  const onnx::ModelProto model = Export({{"tokens", tokens}}, {{"logits", logits}});
  EXPECT_THAT(DimsOf(model.graph().input(0)), ElementsAre("N", "T"));
  EXPECT_EQ(model.graph().input(0).type().tensor_type().elem_type(), onnx::TensorProto::INT64);
  EXPECT_THAT(DimsOf(model.graph().output(0)), ElementsAre("N", "T", "30"));
  EXPECT_EQ(model.graph().output(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : InitializersOf(model)) names.push_back(name);
  EXPECT_THAT(names, IsSupersetOf(VariableNames()));
}

TEST_F(OnnxExport, HasTheVariablesValues) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 6, 6, 3});
  const Output y = Conv2D(scope_, "conv", x, 4, 3, {.use_bias = false});
  const onnx::ModelProto model = Export({{"x", x}}, {{"y", y}});
  const std::map<std::string, onnx::TensorProto> initializers = InitializersOf(model);
  ASSERT_TRUE(initializers.contains("conv/weights"));
  const onnx::TensorProto& weights = initializers.at("conv/weights");
  EXPECT_THAT(weights.dims(), ElementsAre(4, 3, 3, 3));
  const std::vector<double> values = Value(Find("conv/weights"));
  const auto* const written = reinterpret_cast<const float*>(weights.raw_data().data());
  ASSERT_EQ(weights.raw_data().size(), values.size() * sizeof(float));
  for (int r = 0; r < 3; ++r) {
    for (int s = 0; s < 3; ++s) {
      for (int c = 0; c < 3; ++c) {
        for (int k = 0; k < 4; ++k) {
          EXPECT_EQ(written[((k * 3 + c) * 3 + r) * 3 + s], static_cast<float>(values[((r * 3 + s) * 3 + c) * 4 + k]));
        }
      }
    }
  }
}

TEST_F(OnnxExport, ChangesTheOrderOfAxesAtTheEndsOnly) {
  const Output images = Images(16, 16, 3);
  const onnx::ModelProto model = Export({{"image", images}}, {{"logits", ResNet(scope_, images, {.training = false})}});
  EXPECT_EQ(Count(model, "Transpose"), 1);
  EXPECT_EQ(model.graph().node(0).op_type(), "Transpose");
  EXPECT_EQ(Count(model, "Conv"), 19);
  EXPECT_EQ(Count(model, "BatchNormalization"), 19);
  EXPECT_EQ(Count(model, "Relu"), 19);
  EXPECT_EQ(Count(model, "Cast"), 0);
}

TEST_F(OnnxExport, GivesConvolutionsTheirBiases) {
  const Output images = Images(24, 24, 3);
  const onnx::ModelProto model = Export({{"image", images}}, {{"logits", CifarNet(scope_, images)}});
  EXPECT_EQ(Count(model, "Transpose"), 2);  // of the images, and before the dense layers
  EXPECT_EQ(Count(model, "LRN"), 2);
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.op_type() != "Conv") continue;
    EXPECT_EQ(node.input_size(), 3) << node.name();
  }
}

TEST_F(OnnxExport, KeepsABiasThatAnotherNodeDoesNotRead) {
  const Output images = Images(8, 8, 3);
  const Output y = Conv2D(scope_, "conv", images, 4, 3, {.use_bias = false});
  const Output biased = ops::BiasAdd(scope_, y, ops::Const(scope_, {1.f, 2.f, 3.f, 4.f}));
  const onnx::ModelProto model = Export({{"image", images}}, {{"y", y}, {"biased", biased}});
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.op_type() != "Conv") continue;
    EXPECT_EQ(node.input_size(), 2);
  }
  EXPECT_EQ(Count(model, "Add"), 1);
}

TEST_F(OnnxExport, WritesSixteenBitsAsSuch) {
  const Output x = ops::Placeholder(scope_, DType::kBFloat16, {Shape::kUnknown, 3});
  const Output y = Dense(scope_, "dense", x, 2, {});
  const onnx::ModelProto model = Export({{"x", x}}, {{"y", y}});
  EXPECT_EQ(model.graph().input(0).type().tensor_type().elem_type(), onnx::TensorProto::BFLOAT16);
  EXPECT_EQ(model.graph().output(0).type().tensor_type().elem_type(), onnx::TensorProto::BFLOAT16);
  const std::map<std::string, onnx::TensorProto> initializers = InitializersOf(model);
  ASSERT_TRUE(initializers.contains("dense/weights"));
  EXPECT_EQ(initializers.at("dense/weights").data_type(), onnx::TensorProto::BFLOAT16);
  EXPECT_EQ(initializers.at("dense/weights").raw_data().size(), 12u);
}

TEST_F(OnnxExport, ComputesConstantsNow) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 2});
  const Output c = ops::Square(scope_, ops::Const(scope_, {3.f, 4.f}));
  const onnx::ModelProto model = Export({{"x", x}}, {{"y", ops::Add(scope_, x, c)}, {"c", c}});
  EXPECT_EQ(Count(model, "Mul"), 0);
  ASSERT_EQ(model.graph().initializer_size(), 1);
  const auto* const values = reinterpret_cast<const float*>(model.graph().initializer(0).raw_data().data());
  EXPECT_EQ(values[0], 9);
  EXPECT_EQ(values[1], 16);
}

TEST_F(OnnxExport, GivesExtentsThatMeetOneName) {
  const Output a = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown}),
               b = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3}),
               c = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown});
  const Output all = ops::Concat(scope_, {a, b, c}, 1);
  const onnx::ModelProto model = Export({{"a", a}, {"b", b}, {"c", c}}, {{"y", all}, {"rows", ops::Sum(scope_, a, 1)}});
  EXPECT_THAT(DimsOf(model.graph().input(0)), ElementsAre("N", "T"));
  EXPECT_THAT(DimsOf(model.graph().input(1)), ElementsAre("N", "3"));
  EXPECT_THAT(DimsOf(model.graph().input(2)), ElementsAre("N", "T_1"));
  EXPECT_THAT(DimsOf(model.graph().output(0)), ElementsAre("N", "y_1"));
  EXPECT_THAT(DimsOf(model.graph().output(1)), ElementsAre("N"));
}

// An extent that is mostly, but not always, that of an input has a name of its own.
TEST_F(OnnxExport, DoesNotTakeALimitForAnExtent) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, Shape::kUnknown});
  const Output first = ops::StridedSlice(scope_, x, {0, 0}, {ops::kSliceEnd, 2000});
  const onnx::ModelProto model = Export({{"x", x}}, {{"y", first}});
  EXPECT_THAT(DimsOf(model.graph().output(0)), ElementsAre("N", "y_1"));
}

TEST_F(OnnxExport, NamesTheOpThatItHasNoRuleFor) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output noise = ops::RandomNormal(scope_.Named("noise"), {3});  // no constant, though it has no input
  EXPECT_THAT(ErrorOf({{"x", x}}, {{"y", ops::Add(scope_, x, noise)}}),
              HasSubstr("no rule for 'noise' (op RandomNormal)"));
  EXPECT_FALSE(std::filesystem::exists(File("model.onnx")));
}

TEST_F(OnnxExport, NamesTheNodeThatARuleDoesNotCover) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output y = ops::LocalResponseNormalization(scope_.Named("of_rows"), x, {});
  EXPECT_THAT(ErrorOf({{"x", x}}, {{"y", y}}), HasSubstr("cannot write 'of_rows' (op LRN): its input is no image"));
}

TEST_F(OnnxExport, NamesTheOutputThatARuleDoesNotGive) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 4, 4, 3});
  const Output y = ops::MaxPool(scope_.Named("pool"), x);
  EXPECT_THAT(ErrorOf({{"x", x}}, {{"winners", y.node->output(1)}}),
              HasSubstr("does not write output 1 of 'pool' (op MaxPool)"));
}

TEST_F(OnnxExport, RefusesAnInputAndAnOutputOfOneName) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3});
  EXPECT_THAT(ErrorOf({{"x", x}}, {{"x", ops::Relu(scope_, x)}}), HasSubstr("output of the name 'x'"));
}

TEST_F(OnnxExport, HasNoNodeThatNoOutputNeeds) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output y = ops::ReshapeLike(scope_, ops::Relu(scope_, x), ops::Sigmoid(scope_, x));
  const onnx::ModelProto model = Export({{"x", x}}, {{"y", y}});
  EXPECT_EQ(Count(model, "Sigmoid"), 0);
  EXPECT_EQ(Count(model, "Relu"), 1);
}

TEST(OnnxFile, IsAtMostWhatAMessageHolds) {
  EXPECT_TRUE(onnx::CheckMessageSize((uint64_t{1} << 31) - 1).ok());
  EXPECT_THAT(onnx::CheckMessageSize(uint64_t{1} << 31),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("2048 MiB")));
}

}  // namespace
}  // namespace belfry::models
