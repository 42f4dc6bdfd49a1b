#include "models/onnx/import.h"

#include <functional>
#include <set>

#include "framework/base/half.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "framework/io/safetensors.h"
#include "models/onnx/onnx.pb.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/networks/saved_networks.h"
#include "tests/models/onnx/onnx_test.h"

namespace belfry::models {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;
using ::testing::AllOf;
using ::testing::HasSubstr;

// --- Networks that were exported ---

class OnnxRoundTrip : public OnnxTest, public testing::WithParamInterface<Network> {};

TEST_P(OnnxRoundTrip, ComputesTheSame) {
  const Network::Ends ends = GetParam().build(scope_);
  ASSERT_OK_AND_ASSIGN(const SavedModel model, Save(ends.inputs, ends.outputs));
  ASSERT_TRUE(ExportOnnx(model, File("model.onnx")).ok());
  ASSERT_OK_AND_ASSIGN(const SavedModel imported, Import(File("model.onnx")));
  ASSERT_EQ(imported.inputs().size(), ends.inputs.size());
  ASSERT_EQ(imported.outputs().size(), ends.outputs.size());
  for (size_t i = 0; i < ends.inputs.size(); ++i) {
    EXPECT_EQ(imported.inputs()[i].name, ends.inputs[i].name);
    EXPECT_EQ(imported.inputs()[i].value.shape(), ends.inputs[i].value.shape());
    EXPECT_EQ(imported.inputs()[i].value.dtype(), ends.inputs[i].value.dtype());
  }
  const bool narrow = absl::StrContains(GetParam().name, "BFloat16");
  for (const int64_t n : {3, 1}) {
    std::vector<Tensor> values;
    for (const NamedOutput& input : ends.inputs) values.push_back(ValueFor(input.value, n));
    const absl::StatusOr<std::vector<Tensor>> expected = model.Run(values), actual = imported.Run(values);
    ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
    for (size_t k = 0; k < expected->size(); ++k) {
      EXPECT_EQ(imported.outputs()[k].name, ends.outputs[k].name);
      EXPECT_LE(Difference((*actual)[k], (*expected)[k]), narrow ? 3e-2 : 2e-6) << ends.outputs[k].name;
    }
  }
}

// The weights come back with their names and bits, but for those that the export writes in another form. Biases may
// have got axes of extent 1.
TEST_P(OnnxRoundTrip, HasTheSameWeights) {
  for (const char* const changed : {"BFloat16", "Lstm", "Gru"}) {
    if (absl::StrContains(GetParam().name, changed)) GTEST_SKIP() << "the export writes these weights in another form";
  }
  const Network::Ends ends = GetParam().build(scope_);
  const absl::StatusOr<SavedModel> model = Save(ends.inputs, ends.outputs);
  ASSERT_TRUE(model.ok() && ExportOnnx(*model, File("model.onnx")).ok());
  ASSERT_TRUE(ImportOnnx(File("model.onnx"), File("imported")).ok());
  const auto saved = io::ReadSafetensors(File("saved.safetensors")), imported = io::ReadSafetensors(File("imported"));
  ASSERT_TRUE(saved.ok() && imported.ok());
  std::map<std::string, Tensor> tensors;
  for (const io::NamedTensor& tensor : *imported) tensors[tensor.name] = tensor.value;
  for (const io::NamedTensor& tensor : *saved) {
    if (!Find(tensor.name).valid() || tensor.value.shape().rank() == 0) continue;
    ASSERT_TRUE(tensors.contains(tensor.name)) << tensor.name;
    const Tensor& found = tensors[tensor.name];
    ASSERT_EQ(found.elements(), tensor.value.elements()) << tensor.name;
    EXPECT_TRUE(SameBits(found.Reshaped(tensor.value.shape()), tensor.value)) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnnxRoundTrip, testing::ValuesIn(BundledNetworks()),
                         [](const auto& info) { return std::string(info.param.name); });

// --- Files made here ---

onnx::ValueInfoProto Info(const std::string& name, TensorProto::DataType type, const std::vector<int64_t>& dims) {
  onnx::ValueInfoProto info;
  info.set_name(name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const int64_t dim : dims) {
    auto& to = *shape.add_dim();
    if (dim < 0) to.set_dim_param("N");
    if (dim >= 0) to.set_dim_value(dim);
  }
  return info;
}

class OnnxImport : public OnnxTest {
 protected:
  OnnxImport() { Opset(17); }

  void Opset(int64_t version) {
    model_.clear_opset_import();
    model_.add_opset_import()->set_version(version);
  }
  GraphProto& graph() { return *model_.mutable_graph(); }
  void Input(const std::string& name, const std::vector<int64_t>& dims,
             TensorProto::DataType type = TensorProto::FLOAT) {
    *graph().add_input() = Info(name, type, dims);
  }
  void Output(const std::string& name) { *graph().add_output() = Info(name, TensorProto::FLOAT, {}); }
  NodeProto& Add(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
    NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name(absl::StrCat("the_", op));
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }
  static onnx::AttributeProto& Attribute(NodeProto& node, const std::string& name) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    return attribute;
  }
  static void Ints(NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
    onnx::AttributeProto& attribute = Attribute(node, name);
    for (const int64_t value : values) attribute.add_ints(value);
  }
  TensorProto& Initializer(const std::string& name, const std::vector<int64_t>& dims,
                           TensorProto::DataType type = TensorProto::FLOAT) {
    TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const int64_t dim : dims) tensor.add_dims(dim);
    return tensor;
  }
  void Floats(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
    TensorProto& tensor = Initializer(name, dims);
    for (const float value : values) tensor.add_float_data(value);
  }
  void Numbers(const std::string& name, const std::vector<int64_t>& values) {
    TensorProto& tensor = Initializer(name, {static_cast<int64_t>(values.size())}, TensorProto::INT64);
    for (const int64_t value : values) tensor.add_int64_data(value);
  }
  absl::Status WriteModel() { return io::WriteFile(File("model.onnx"), model_.SerializeAsString()); }
  absl::StatusOr<std::vector<Tensor>> Compute(const std::vector<Tensor>& values, const ImportOptions& options = {}) {
    RETURN_IF_ERROR(WriteModel());
    ASSIGN_OR_RETURN(const SavedModel model, Import(File("model.onnx"), options));
    return model.Run(values);
  }
  std::vector<double> First(const std::vector<Tensor>& values, const ImportOptions& options = {}) {
    const absl::StatusOr<std::vector<Tensor>> outputs = Compute(values, options);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? (*outputs)[0].ToDoubles() : std::vector<double>();
  }
  absl::Status Error() {
    const absl::Status written = WriteModel();
    return written.ok() ? ImportOnnx(File("model.onnx"), File("imported")).status() : written;
  }
  std::string Message() { return std::string(Error().message()); }

  ModelProto model_;
};

using Doubles = std::vector<double>;

TEST_F(OnnxImport, ReadsEveryDType) {
  const auto number_of = [&](TensorProto::DataType type, const std::function<void(TensorProto&)>& fill) {
    model_.clear_graph();
    TensorProto& tensor = Initializer("c", {2}, type);
    fill(tensor);
    Add("Cast", {"c"}, "y");
    Attribute(*graph().mutable_node(0), "to").set_i(TensorProto::DOUBLE);
    Output("y");
    return First({});
  };
  const auto ints = [](TensorProto& t) { t.add_int32_data(3), t.add_int32_data(0); };
  EXPECT_EQ(number_of(TensorProto::FLOAT, [](auto& t) { t.add_float_data(1.5f), t.add_float_data(-2); }),
            (Doubles{1.5, -2}));
  EXPECT_EQ(number_of(TensorProto::DOUBLE, [](auto& t) { t.add_double_data(1.5), t.add_double_data(-2); }),
            (Doubles{1.5, -2}));
  EXPECT_EQ(number_of(TensorProto::INT64, [](auto& t) { t.add_int64_data(7), t.add_int64_data(-2); }),
            (Doubles{7, -2}));
  EXPECT_EQ(number_of(TensorProto::INT32, ints), (Doubles{3, 0}));
  EXPECT_EQ(number_of(TensorProto::UINT8, ints), (Doubles{3, 0}));
  EXPECT_EQ(number_of(TensorProto::BOOL, ints), (Doubles{1, 0}));
  EXPECT_EQ(number_of(TensorProto::FLOAT16, [](auto& t) { t.add_int32_data(0x3e00), t.add_int32_data(0xc000); }),
            (Doubles{1.5, -2}));
  EXPECT_EQ(number_of(TensorProto::BFLOAT16, [](auto& t) { t.add_int32_data(0x3fc0), t.add_int32_data(0xc000); }),
            (Doubles{1.5, -2}));
  EXPECT_EQ(number_of(TensorProto::BOOL, [](auto& t) { t.set_raw_data(std::string("\x05\x00", 2)); }), (Doubles{1, 0}));
}

TEST_F(OnnxImport, ReadsElementsInOtherFiles) {
  const float values[] = {1, 2, 3, 4};
  ASSERT_TRUE(
      io::WriteFile(File("weights.bin"), absl::string_view(reinterpret_cast<const char*>(values), sizeof values)).ok());
  Input("x", {-1, 3});
  TensorProto& w = Initializer("w", {3});
  w.set_data_location(TensorProto::EXTERNAL);
  const auto set = [&](const std::string& key, const std::string& value) {
    auto& entry = *w.add_external_data();
    entry.set_key(key), entry.set_value(value);
  };
  set("location", "weights.bin"), set("offset", "4"), set("length", "12");
  Add("Mul", {"x", "w"}, "y");
  Output("y");
  EXPECT_EQ(First({Tensor::Of<float>({1, 10, 100}, {1, 3})}), (Doubles{2, 30, 400}));
  w.mutable_external_data(1)->set_value("8");
  EXPECT_EQ(Error().code(), absl::StatusCode::kDataLoss);
  w.mutable_external_data(2)->set_value("11");
  EXPECT_THAT(Message(), AllOf(HasSubstr("'w'"), HasSubstr("11 bytes")));
  w.mutable_external_data(2)->set_value("99999999999999999999");
  EXPECT_THAT(Message(), HasSubstr("no number"));
  w.mutable_external_data(2)->set_value("12");
  std::filesystem::create_directories(folder_ / "inner");
  for (const char* const outside : {"../weights.bin", "inner/../../weights.bin", "/etc/passwd", "", "link"}) {
    std::error_code error;
    std::filesystem::create_symlink("/etc/passwd", folder_ / "link", error);
    w.mutable_external_data(0)->set_value(outside);
    EXPECT_THAT(Message(), HasSubstr("not below the folder of the model")) << outside;
  }
  w.mutable_external_data(0)->set_value("none");
  EXPECT_EQ(Error().code(), absl::StatusCode::kNotFound);
}

TEST_F(OnnxImport, TakesAttributesOfEarlyOpsets) {
  Opset(9);
  Input("x", {-1, 1, 4});
  NodeProto& clip = Add("Clip", {"x"}, "a");
  Attribute(clip, "min").set_f(-1), Attribute(clip, "max").set_f(2);
  Ints(Add("Squeeze", {"a"}, "b"), "axes", {1});
  NodeProto& slice = Add("Slice", {"b"}, "c");
  Ints(slice, "axes", {1}), Ints(slice, "starts", {1}), Ints(slice, "ends", {100});
  NodeProto& pad = Add("Pad", {"c"}, "d");
  Ints(pad, "pads", {0, 1, 0, 0}), Attribute(pad, "value").set_f(0.5f);
  Ints(Add("Unsqueeze", {"d"}, "e"), "axes", {0, 3});
  Attribute(Add("Dropout", {"e"}, "f"), "ratio").set_f(0.5f);
  NodeProto& sum = Add("ReduceSum", {"f"}, "g");
  Ints(sum, "axes", {0, -1}), Attribute(sum, "keepdims").set_i(0);
  NodeProto& split = Add("Split", {"g"}, "h");
  split.add_output("i");
  Ints(split, "split", {1, 3}), Attribute(split, "axis").set_i(1);
  Output("i");
  EXPECT_EQ(First({Tensor::Of<float>({-5, -3, 1, 9}, {1, 1, 4})}), (Doubles{-1, 1, 2}));
}

TEST_F(OnnxImport, TakesInputsOfLaterOpsets) {
  Opset(18);
  Input("x", {-1, 1, 4});
  Numbers("one", {1}), Numbers("zero", {0}), Numbers("far", {std::numeric_limits<int64_t>::max()});
  Numbers("pads", {1, 0}), Numbers("sizes", {1, 3}), Numbers("ends", {0, 3}), Numbers("back", {-1});
  Numbers("edge", {std::numeric_limits<int64_t>::min()});
  TensorProto& low = Initializer("low", {});
  low.add_float_data(-1);
  Add("Clip", {"x", "low", ""}, "a");
  Add("Squeeze", {"a", "one"}, "b");
  Add("Slice", {"b", "far", "edge", "one", "back"}, "c");  // reversed
  Add("Pad", {"c", "pads", "low", "one"}, "d");
  Add("Unsqueeze", {"d", "ends"}, "e");
  NodeProto& sum = Add("ReduceMax", {"e", "ends"}, "g");
  Attribute(sum, "keepdims").set_i(0);
  Output("g");
  EXPECT_EQ(First({Tensor::Of<float>({-5, -3, 1, 9}, {1, 1, 4})}), (Doubles{-1, 9, 1, -1, -1}));
}

// The batch stays open through the shapes that a model computes.
TEST_F(OnnxImport, ComputesShapes) {
  Input("x", {-1, 2, 3});
  Numbers("zero", {0}), Numbers("six", {6}), Numbers("minus", {-1}), Numbers("two", {2}), Numbers("ones", {1, 1});
  Add("Shape", {"x"}, "shape");
  Add("Gather", {"shape", "zero"}, "n");
  Add("Concat", {"n", "six"}, "wanted");
  Attribute(*graph().mutable_node(2), "axis").set_i(0);
  Add("Reshape", {"x", "wanted"}, "rows");
  Add("ConstantOfShape", {"wanted"}, "zeros");
  Add("Mul", {"n", "two"}, "twice");
  Add("Concat", {"twice", "minus"}, "halves");
  Attribute(*graph().mutable_node(6), "axis").set_i(0);
  Add("Add", {"rows", "zeros"}, "sum");
  Add("Reshape", {"sum", "halves"}, "y");
  Output("y");
  for (const int64_t n : {1, 3}) {
    const Tensor x = Random({n, 2, 3});
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs, Compute({x}));
    EXPECT_EQ(outputs[0].shape(), Shape({2 * n, 3}));
    EXPECT_EQ(outputs[0].ToDoubles(), x.ToDoubles());
  }
}

// Negative indices count from the end in ONNX, be they known or not, and the extent open or not.
TEST_F(OnnxImport, TakesIndicesFromTheEnd) {
  for (const int64_t rows : {int64_t{-1}, int64_t{3}}) {
    model_.clear_graph();
    Input("x", {rows, 2}), Input("i", {2}, TensorProto::INT64), Input("pairs", {2, 2}, TensorProto::INT32);
    Numbers("known", {-1, 0}), Numbers("values", {7, 9});
    Initializer("depth", {}, TensorProto::INT64).add_int64_data(3);
    Add("Gather", {"x", "i"}, "gathered"), Add("Gather", {"x", "known"}, "of_known");
    Add("GatherND", {"x", "pairs"}, "elements"), Add("OneHot", {"i", "depth", "values"}, "one_hot");
    for (const char* const name : {"gathered", "of_known", "elements", "one_hot"}) Output(name);
    const Tensor x = Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2}), i = Tensor::Of<int64_t>({-3, -1});
    ASSERT_OK_AND_ASSIGN(const auto y, Compute({x, i, Tensor::Of<int32_t>({-1, 0, 1, -1}, {2, 2})}));
    EXPECT_EQ(y[0].ToDoubles(), (Doubles{1, 2, 5, 6}));
    EXPECT_EQ(y[1].ToDoubles(), (Doubles{5, 6, 1, 2}));
    EXPECT_EQ(y[2].ToDoubles(), (Doubles{5, 4}));
    EXPECT_EQ(y[3].ToDoubles(), (Doubles{9, 7, 7, 7, 7, 9}));
  }
}

// A convolution with a filter of one tap in the corner, which moves the image.
TEST_F(OnnxImport, HasImagesInEitherOrder) {
  Input("x", {-1, 2, 2, 3});
  Floats("w", {1, 2, 1, 2}, {1, 0, 0, 10});
  Ints(Add("Conv", {"x", "w"}, "y"), "pads", {0, 1, 0, 0});
  Output("y");
  const Tensor first = Tensor::Of<float>({1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}, {1, 2, 2, 3});
  EXPECT_EQ(First({first}), (Doubles{100, 201, 302, 400, 504, 605}));
  const Tensor last = Tensor::Of<float>({1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60}, {1, 2, 3, 2});
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs, Compute({last}, {.channels_last = true}));
  EXPECT_EQ(outputs[0].shape(), Shape({1, 2, 3, 1}));
  EXPECT_EQ(outputs[0].ToDoubles(), (Doubles{100, 201, 302, 400, 504, 605}));
}

TEST_F(OnnxImport, PoolsAsOnnxDoes) {
  Input("x", {1, 1, 1, 6});
  const auto pool = [&](const std::string& op, const std::string& output, const std::string& flag) {
    NodeProto& node = Add(op, {"x"}, output);
    Ints(node, "kernel_shape", {1, 3}), Ints(node, "strides", {1, 2}), Ints(node, "pads", {0, 1, 0, 0});
    if (!flag.empty()) Attribute(node, flag).set_i(1);
    Output(output);
  };
  pool("MaxPool", "max", ""), pool("MaxPool", "ceil", "ceil_mode");
  pool("AveragePool", "inside", ""), pool("AveragePool", "all", "count_include_pad");
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> y, Compute({Tensor::Of<float>({6, 3, 9, 3, 0, 12}, {1, 1, 1, 6})}));
  EXPECT_EQ(y[0].ToDoubles(), (Doubles{6, 9, 12}));
  EXPECT_EQ(y[1].ToDoubles(), (Doubles{6, 9, 12}));
  EXPECT_EQ(y[2].ToDoubles(), (Doubles{4.5, 5, 5}));
  EXPECT_EQ(y[3].ToDoubles(), (Doubles{3, 5, 5}));
}

// A copy of a weight, which exporters write where weights are equal, is a weight of its own; a mask is none.
TEST_F(OnnxImport, TellsVariablesFromConstants) {
  Input("x", {-1, 2});
  Floats("a", {2}, {1, 2}), Floats("mask", {2}, {0, -INFINITY}), Floats("val_7", {1}, {3}), Floats("scale", {}, {2});
  Add("Identity", {"a"}, "b.bias");
  Add("Add", {"x", "a"}, "1"), Add("Mul", {"1", "b.bias"}, "2"), Add("Max", {"2", "mask"}, "3");
  Add("Mul", {"3", "val_7"}, "4"), Add("Mul", {"4", "scale"}, "y");
  Output("y");
  EXPECT_EQ(First({Tensor::Of<float>({1, 1}, {1, 2})}), (Doubles{12, 36}));
  ASSERT_OK_AND_ASSIGN(const ImportSummary summary, ImportOnnx(File("model.onnx"), File("imported")));
  EXPECT_EQ(summary.parameters, 4);
  EXPECT_EQ(summary.nodes, 6);
  EXPECT_EQ(summary.inputs[0].shape, Shape({-1, 2}));
  Graph trained(BuiltinOps());
  const absl::StatusOr<ModelContents> contents = ModelContents::Open(File("imported"));
  ASSERT_TRUE(contents.ok() && contents->Build(Scope(trained), ModelMode::kTrained).ok());
  std::set<std::string> names;
  for (const Variable& variable : trained.variables()) names.insert(variable.name());
  EXPECT_EQ(names, (std::set<std::string>{"a", "b.bias"}));
}

TEST_F(OnnxImport, NamesWhatIsNotCovered) {
  Input("x", {-1, 4});
  Output("y");
  const auto with = [&](const std::string& op, const std::function<void(NodeProto&)>& change = nullptr) {
    graph().clear_node();
    NodeProto& node = Add(op, {"x"}, "y");
    if (change) change(node);
    return Error();
  };
  EXPECT_EQ(with("NonZero").code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(), AllOf(HasSubstr("'the_NonZero' (op_type NonZero)"), HasSubstr("has no rule")));
  EXPECT_EQ(with("Relu", [](NodeProto& node) { node.set_domain("com.microsoft"); }).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(), HasSubstr("com.microsoft"));
  EXPECT_THAT(with("Cast", [](NodeProto& node) { Attribute(node, "to").set_i(TensorProto::STRING); }).message(),
              HasSubstr("element type 8"));
  EXPECT_THAT(with("Pad", [](NodeProto& node) { Attribute(node, "mode").set_s("reflect"); }).message(),
              HasSubstr("mode 'reflect'"));
  EXPECT_THAT(with("MaxPool", [](NodeProto& node) { Ints(node, "kernel_shape", {2}); }).message(), HasSubstr("2 axes"));
  EXPECT_EQ(with("Reshape", [](NodeProto& node) { node.add_input("x"); }).code(), absl::StatusCode::kUnimplemented);
  Opset(6);
  EXPECT_THAT(with("Relu").message(), HasSubstr("opset 6"));
}

// Forms of a resize, and attributes of others, that would give other numbers.
TEST_F(OnnxImport, RefusesWhatItWouldComputeOtherwise) {
  Input("x", {1, 1, 3, 4});
  Output("y");
  Floats("whole", {4}, {1, 1, 2, 2}), Floats("half", {4}, {1, 1, 1.5, 1.5}), Numbers("one", {1, 1, 1, 8});
  using Texts = std::vector<std::pair<std::string, std::string>>;
  const auto resize = [&](const std::string& scales, const std::string& sizes, const Texts& attributes) {
    graph().clear_node();
    NodeProto& node = Add("Resize", {"x", "", scales}, "y");
    if (!sizes.empty()) node.add_input(sizes);
    for (const auto& [name, value] : attributes) Attribute(node, name).set_s(value);
    return Error().code();
  };
  const auto refused = absl::StatusCode::kUnimplemented;
  const Texts linear = {{"mode", "linear"}};
  EXPECT_EQ(resize("whole", "", linear), absl::StatusCode::kOk);
  EXPECT_EQ(resize("half", "", linear), refused);  // 4.5 rows
  EXPECT_EQ(resize("whole", "", {}), absl::StatusCode::kOk);
  EXPECT_EQ(resize("whole", "", {{"nearest_mode", "ceil"}}), refused);
  EXPECT_EQ(resize("whole", "", {{"coordinate_transformation_mode", "asymmetric"}}), refused);
  EXPECT_EQ(resize("whole", "", {{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}}),
            absl::StatusCode::kOk);
  EXPECT_EQ(resize("", "one", {{"mode", "linear"}, {"coordinate_transformation_mode", "pytorch_half_pixel"}}), refused);
  EXPECT_EQ(resize("", "one", linear), absl::StatusCode::kOk);
  EXPECT_EQ(resize("", "one", {{"mode", "linear"}, {"keep_aspect_ratio_policy", "not_larger"}}), refused);
  graph().clear_node();
  Attribute(Add("SpaceToDepth", {"x"}, "y"), "mode").set_s("CRD");
  EXPECT_THAT(Message(), HasSubstr("mode is not DCR"));
  graph().clear_node();
  Attribute(Add("IsInf", {"x"}, "y"), "detect_negative").set_i(0);
  EXPECT_THAT(Message(), HasSubstr("infinities of one sign"));
}

TEST_F(OnnxImport, RefusesMalformedFiles) {
  EXPECT_EQ(ImportOnnx(File("none.onnx"), File("y")).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(io::WriteFile(File("text.onnx"), "no model at all").ok());
  EXPECT_EQ(ImportOnnx(File("text.onnx"), File("y")).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(io::WriteFile(File("empty.onnx"), "").ok());
  EXPECT_THAT(ImportOnnx(File("empty.onnx"), File("y")).status().message(), HasSubstr("no graph"));

  EXPECT_THAT(Message(), HasSubstr("no graph"));
  Input("x", {-1, 2});
  EXPECT_THAT(Message(), HasSubstr("no outputs"));
  Output("y");
  EXPECT_THAT(Message(), HasSubstr("'y' that no node gives"));
  NodeProto& node = Add("Add", {"x", "w"}, "y");
  EXPECT_THAT(Message(), HasSubstr("reads 'w', which no node before it gives"));
  TensorProto& w = Initializer("w", {3});
  EXPECT_THAT(Message(), HasSubstr("has 0 elements, but its shape [3] of float32 needs 3"));
  w.set_raw_data("12345");
  EXPECT_THAT(Message(), HasSubstr("has 5 bytes"));
  w.set_dims(0, -3);
  EXPECT_THAT(Message(), HasSubstr("negative extent"));
  w.set_dims(0, int64_t{1} << 62);
  EXPECT_EQ(Error().code(), absl::StatusCode::kInvalidArgument);
  w.add_dims(int64_t{1} << 62);
  EXPECT_EQ(Error().code(), absl::StatusCode::kInvalidArgument);
  w.clear_dims(), w.add_dims(3), w.set_raw_data(std::string(12, '\0'));
  EXPECT_THAT(Message(), AllOf(HasSubstr("'the_Add'"), HasSubstr("[?,2]"), HasSubstr("[3]")));
  w.set_dims(0, 2), w.set_raw_data(std::string(8, '\0'));
  EXPECT_EQ(Message(), "");
  node.add_output("w");
  EXPECT_THAT(Message(), HasSubstr("gives 'w', which exists already"));
  node.mutable_output()->RemoveLast();
  node.mutable_input()->RemoveLast();
  node.set_op_type("Pow");
  EXPECT_THAT(Message(), HasSubstr("has no input 1"));
  model_.clear_opset_import();
  EXPECT_THAT(Message(), HasSubstr("no opset"));
}

}  // namespace
}  // namespace belfry::models
