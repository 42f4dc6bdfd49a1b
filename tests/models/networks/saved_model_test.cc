#include "framework/runtime/saved_model/saved_model.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "framework/io/safetensors.h"
#include "models/layers/batch_norm.h"
#include "models/layers/layers.h"
#include "models/networks/mlp.h"
#include "ops/builtin_ops.h"
#include "ops/collective.h"
#include "ops/nn.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/model_test.h"
#include "tests/models/networks/saved_networks.h"

namespace belfry::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class SavedModelTest : public ModelTest {
 protected:
  // Variables without the values that layers begin with, such as zeros, which would hide an exchange of two.
  void RandomVariables() {
    for (const Variable& variable : graph_.variables()) {
      if (variable.shape().rank() != 1 || variable.dtype() != DType::kFloat32) continue;
      Tensor value(DType::kFloat32, variable.shape());
      std::uniform_real_distribution<float> uniform(0.2f, 1.0f);
      for (int64_t i = 0; i < value.elements(); ++i) value.data<float>()[i] = uniform(TestRandom());
      ASSERT_TRUE(session_->WriteVariable(variable, value).ok());
    }
  }
  absl::StatusOr<SavedModel> Open() const { return SavedModel::Open(path_, BuiltinOps(), devices_); }
  absl::Status Save(const std::vector<NamedOutput>& inputs, const std::vector<NamedOutput>& outputs) {
    return SaveModel(*session_, inputs, outputs, path_);
  }
  std::string Bytes() const { return Contents(path_); }
  void Write(const std::string& bytes) const { folder_.Write("saved.safetensors", bytes); }

  // A model of one input and one output, in the file.
  void SaveMlp() {
    const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3});
    const Output y = Mlp(scope_, x, {.hidden = {4}, .classes = 2, .training = false});
    Start();
    ASSERT_TRUE(Save({{"x", x}}, {{"logits", y}}).ok());
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "saved.safetensors";
};

class SavedNetworks : public SavedModelTest, public testing::WithParamInterface<Network> {};

TEST_P(SavedNetworks, HaveTheBitsOfTheirSession) {
  const Network::Ends ends = GetParam().build(scope_);
  Start();
  RandomVariables();
  ASSERT_EQ(Save(ends.inputs, ends.outputs), absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const SavedModel model, Open());
  ASSERT_EQ(model.inputs().size(), ends.inputs.size());
  ASSERT_EQ(model.outputs().size(), ends.outputs.size());
  for (size_t i = 0; i < ends.inputs.size(); ++i) {
    EXPECT_EQ(model.inputs()[i].name, ends.inputs[i].name);
    EXPECT_EQ(model.inputs()[i].value.shape(), ends.inputs[i].value.shape());
    EXPECT_EQ(model.inputs()[i].value.dtype(), ends.inputs[i].value.dtype());
  }
  std::vector<Output> fetches;
  for (const NamedOutput& output : ends.outputs) fetches.push_back(output.value);
  for (const int64_t n : {3, 1, 8}) {
    std::vector<Tensor> values;
    std::vector<Feed> feeds;
    for (const NamedOutput& input : ends.inputs) {
      values.push_back(ValueFor(input.value, n));
      feeds.push_back({input.value, values.back()});
    }
    const std::vector<Tensor> expected = Run(feeds, fetches);
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> actual, model.Run(values));
    for (size_t k = 0; k < expected.size(); ++k) {
      EXPECT_EQ(model.outputs()[k].name, ends.outputs[k].name);
      EXPECT_TRUE(SameBits(actual[k], expected[k])) << ends.outputs[k].name << " of " << n;
    }
  }
}

// examples/serve.c, which links libbelfry_inference and nothing else of Belfry.
TEST_P(SavedNetworks, HaveTheSameBitsInAProgramWithoutTraining) {
  const fs::path serve = fs::read_symlink("/proc/self/exe").parent_path() / "serve";
  if (!fs::exists(serve)) GTEST_SKIP() << serve << " is not built";
  const Network::Ends ends = GetParam().build(scope_);
  Start();
  RandomVariables();
  ASSERT_TRUE(Save(ends.inputs, ends.outputs).ok());
  std::vector<Output> fetches;
  for (const NamedOutput& output : ends.outputs) fetches.push_back(output.value);
  constexpr int64_t kBatch = 3;
  std::string inputs, expected;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<Feed> feeds;
    for (const NamedOutput& input : ends.inputs) {
      feeds.push_back({input.value, ValueFor(input.value, kBatch)});
      inputs.append(static_cast<const char*>(feeds.back().value.raw()), feeds.back().value.bytes());
    }
    for (const Tensor& value : Run(feeds, fetches)) {
      expected.append(static_cast<const char*>(value.raw()), value.bytes());
    }
  }
  const std::string in = path_ + ".in", out = path_ + ".out";
  std::ofstream(in, std::ios::binary) << inputs;
  const std::string command = absl::StrCat(serve.string(), " ", path_, " ", kBatch, " 11 < ", in, " > ", out);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::ostringstream actual;
  actual << std::ifstream(out, std::ios::binary).rdbuf();
  EXPECT_TRUE(actual.str() == expected) << actual.str().size() << " bytes, and " << expected.size() << " expected";
}

INSTANTIATE_TEST_SUITE_P(All, SavedNetworks, testing::ValuesIn(BundledNetworks()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(SavedModelTest, ComputesWhatDependsOnWeightsAlone) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 6, 6, 16});
  const Output conv = Conv2D(scope_, "conv", x, 32, 3, {.use_bias = false});
  const Output norm = ops::Relu(scope_, BatchNorm(scope_, "norm", conv, {.training = false}));
  const Output scale = GetVariable(scope_, "scale", {1, 6, 6, 32}, ConstantInitializer(2));
  const Output y = ops::Mul(scope_, norm, ops::BroadcastLike(scope_, scale, norm));
  Start();
  RandomVariables();
  ASSERT_TRUE(Save({{"x", x}}, {{"y", y}}).ok());
  ASSERT_OK_AND_ASSIGN(const SavedModel model, Open());
  ASSERT_OK_AND_ASSIGN(const auto step, model.Prepare({Shape({3, 6, 6, 16})}));
  std::map<std::string, int> ops;
  for (const ProgramNode& node : step->plan().program.nodes) ++ops[node.op->name];
  EXPECT_EQ(ops["FusedConv2D"], 1);
  for (const char* op : {"Conv2D", "BatchNormInference", "BatchNormFilter", "BatchNormBias", "Relu"}) {
    EXPECT_EQ(ops[op], 0) << op;
  }
  // It would take three times the memory of the weights.
  EXPECT_EQ(ops["BroadcastLike"], 1);
  const Tensor value = Random({3, 6, 6, 16});
  ASSERT_TRUE(step->Run({value}).ok());
  EXPECT_TRUE(SameBits(step->fetched(0), Run({{x, value}}, {y})[0]));
}

// The constants that kernels read in another form.
std::vector<const ProgramNode*> PreparedWeights(const Program& program) {
  std::vector<const ProgramNode*> constants;
  for (int i = 0; i < static_cast<int>(program.nodes.size()); ++i) {
    const ProgramNode& node = program.nodes[i];
    for (int input = 0; input < static_cast<int>(node.inputs.size()); ++input) {
      if (program.prepared->Has(i, input)) constants.push_back(&program.nodes[node.inputs[input].node]);
    }
  }
  return constants;
}

// Several runners of one plan share their weights, of which those that kernels have in another form are not kept.
TEST_F(SavedModelTest, RunnersShareWeights) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 8, 8, 16});
  const Output conv = Conv2D(scope_, "conv", x, 32, 3, {.activation = Activation::kRelu});
  const Output y = Dense(scope_, "dense", Flatten(scope_, conv), 24);
  Start();
  ASSERT_TRUE(Save({{"x", x}}, {{"y", y}}).ok());
  const std::string dump = path_ + ".plans";
  ASSERT_OK_AND_ASSIGN(const auto model, SavedModel::Open(path_, BuiltinOps(), devices_, {.dump_plan = dump}));
  const Tensor value = Random({5, 8, 8, 16});
  const Tensor expected = Run({{x, value}}, {y})[0].Clone();
  ASSERT_OK_AND_ASSIGN(auto first, model.Prepare({value.shape()}));
  const auto second = model.Prepare({value.shape()});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(&first->plan(), &(*second)->plan());
  const std::vector<const ProgramNode*> prepared = PreparedWeights((*second)->plan().program);
  EXPECT_FALSE(prepared.empty());
  for (const ProgramNode* node : prepared) EXPECT_EQ(node->attrs.Get<Tensor>("value").raw(), nullptr) << node->name;
  first.reset();
  const auto third = model.Prepare({value.shape()});
  ASSERT_TRUE(third.ok()) << third.status();
  for (const auto* step : {&second, &third}) {
    ASSERT_TRUE((**step)->Run({value}).ok());
    EXPECT_TRUE(SameBits((**step)->fetched(0), expected));
  }
}

// A plan for each of many shapes would otherwise keep weights without limit.
TEST_F(SavedModelTest, FormsOfWeightsCountAgainstTheCache) {
  constexpr int64_t kWidth = 512;  // 1 MiB of weights
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, kWidth});
  const Output y = Dense(scope_, "dense", x, kWidth);
  Start();
  ASSERT_TRUE(Save({{"x", x}}, {{"y", y}}).ok());
  const std::string dump = path_ + ".plans";
  const auto model =
      SavedModel::Open(path_, BuiltinOps(), devices_, {.plan_cache_bytes = size_t{5} << 19, .dump_plan = dump});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto compiled = [&] { return std::distance(fs::directory_iterator(dump), fs::directory_iterator()); };
  for (const int64_t n : {2, 3, 4, 5}) ASSERT_TRUE(model->Run({Random({n, kWidth})}).ok());
  if (PreparedWeights((*model->Prepare({Shape({5, kWidth})}))->plan().program).empty()) {
    GTEST_SKIP() << "this processor's product reads weights as they are";
  }
  EXPECT_EQ(compiled(), 4);
  ASSERT_TRUE(model->Run({Random({5, kWidth})}).ok());
  EXPECT_EQ(compiled(), 4);
  ASSERT_TRUE(model->Run({Random({2, kWidth})}).ok());
  EXPECT_EQ(compiled(), 5);
}

TEST_F(SavedModelTest, HasTheVariablesByName) {
  SaveMlp();
  ASSERT_OK_AND_ASSIGN(const auto file, io::SafetensorsFile::Open(path_));
  for (const char* name : {"hidden1/weights", "hidden1/biases", "softmax_linear/weights", "softmax_linear/biases"}) {
    const io::TensorInfo* const info = file.Find(name);
    ASSERT_NE(info, nullptr) << name;
    EXPECT_TRUE(SameBits(*file.Read(*info), *session_->ReadVariable(Find(name)))) << name;
  }
}

TEST_F(SavedModelTest, LeavesOutWhatOutputsDoNotNeed) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {Shape::kUnknown, 3});
  const Output y = ops::Relu(scope_, x);
  Mlp(scope_, x, {});
  Start();
  ASSERT_TRUE(Save({{"x", x}}, {{"y", y}}).ok());
  ASSERT_OK_AND_ASSIGN(const SavedModel model, Open());
  EXPECT_EQ(model.session().graph().size(), 2);
}

TEST_F(SavedModelTest, SaysWhatItCannotSave) {
  const Output x = ops::Placeholder(scope_, DType::kFloat32, {2}),
               other = ops::Placeholder(scope_, DType::kFloat32, {2});
  const Output sum = ops::Add(scope_, x, other);
  const Variable v = GetVariable(scope_, "v", {2}, ZerosInitializer());
  const Output updated = ops::AssignAdd(scope_, v, x);
  const Output exchanged = ops::AllReduceSum(scope_, {.group = "group", .size = 1}, {x})[0];
  Start();
  EXPECT_THAT(Save({{"x", x}}, {{"sum", sum}}).message(),
              AllOf(HasSubstr("'Placeholder_1'"), HasSubstr("output 'sum' needs"), HasSubstr("saved_model_test.cc")));
  EXPECT_THAT(Save({{"x", x}}, {{"v", updated}}).message(), HasSubstr("updates a variable"));
  EXPECT_THAT(Save({{"x", x}}, {{"y", exchanged}}).message(), HasSubstr("exchanges values"));
  EXPECT_THAT(Save({{"x", sum}}, {{"y", sum}}).message(), HasSubstr("no placeholder"));
  EXPECT_THAT(Save({{"x", x}, {"x", other}}, {{"y", sum}}).message(), HasSubstr("name 'x'"));
  EXPECT_THAT(Save({{"", x}}, {{"y", sum}}).message(), HasSubstr("no name"));
  EXPECT_THAT(Save({{"x", x}, {"other", other}}, {{"\xff", sum}}).message(), HasSubstr("UTF-8"));
  EXPECT_THAT(Save({{"x", x}}, {{"y", Output()}}).message(), HasSubstr("invalid"));
  EXPECT_THAT(Save({{"x", x}}, {}).message(), HasSubstr("needs an output"));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(SavedModelTest, SaysWhichInputDoesNotFit) {
  SaveMlp();
  ASSERT_OK_AND_ASSIGN(const SavedModel model, Open());
  EXPECT_THAT(model.Run({Random({2, 4})}).status().message(),
              AllOf(HasSubstr("'x' is float32 [2,4]"), HasSubstr("must be float32 [?,3]")));
  EXPECT_THAT(model.Run({Classes(3, 2)}).status().message(), HasSubstr("'x' is int32"));
  EXPECT_THAT(model.Run({}).status().message(), HasSubstr("takes 1 inputs, but 0"));
}

// Each byte is covered by a checksum, or by the format's own rules.
TEST_F(SavedModelTest, RefusesAChangeOfAnyByte) {
  SaveMlp();
  const std::string bytes = Bytes();
  for (size_t i = TestRandom()() % 16; i < bytes.size(); i += 1 + TestRandom()() % 16) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (TestRandom()() % 8)));
    Write(changed);
    EXPECT_FALSE(Open().ok()) << "byte " << i << " of " << bytes.size();
  }
  for (size_t size = 0; size < bytes.size(); size += 61) {
    Write(bytes.substr(0, size));
    EXPECT_FALSE(Open().ok()) << "the first " << size << " of " << bytes.size() << " bytes";
  }
}

TEST_F(SavedModelTest, SaysWhatIsWrongWithADescription) {
  SaveMlp();
  ASSERT_OK_AND_ASSIGN(const auto file, io::SafetensorsFile::Open(path_));
  const std::vector<io::NamedTensor> tensors = file.ReadAll().value();
  const std::string text = file.metadata().at("belfry.model");
  const auto error = [&](const std::string& from, const std::string& to) -> std::string {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    changed.replace(at, from.size(), to);
    EXPECT_TRUE(io::WriteSafetensors(path_, tensors, {{"belfry.model", changed}}).ok());
    return std::string(Open().status().message());
  };
  EXPECT_THAT(error("\"version\":1", "\"version\":2"), HasSubstr("version 2, of a later Belfry"));
  EXPECT_THAT(error("\"MatMul\"", "\"MatMule\""), HasSubstr("has op 'MatMule', which this program does not register"));
  EXPECT_THAT(error("\"transpose_a\":false", "\"transpose_a\":1"), HasSubstr("'transpose_a', which is neither"));
  EXPECT_THAT(error("\"transpose_a\"", "\"transposed\""), HasSubstr("'transposed', which op"));
  EXPECT_THAT(error("\"hidden1/weights\"}", "\"none\"}"), HasSubstr("is no tensor of the file"));
  EXPECT_THAT(error("[null,3]", "[null,-4]"), HasSubstr("shape"));
  EXPECT_THAT(error("[[0,0]", "[[99,0]"), HasSubstr("refers to [99,0]"));
  EXPECT_THAT(error("\"float32\"", "\"float31\""), HasSubstr("no dtype"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(error("\"float32\"", deep), HasSubstr("is array, which is no dtype"));
  EXPECT_THAT(error("{", "["), HasSubstr("has no version"));
  ASSERT_TRUE(io::WriteSafetensors(path_, tensors).ok());
  EXPECT_THAT(Open().status().message(), HasSubstr("is no saved model"));
}

}  // namespace
}  // namespace belfry::models
