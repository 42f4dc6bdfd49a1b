#include "models/weights/foreign_weights.h"

#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "models/networks/pictures/picture_networks.h"
#include "models/networks/text_encoder.h"
#include "models/networks/transformer.h"
#include "tests/framework/base/same_bits.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::HasSubstr;

class ForeignWeights : public ModelTest {
 protected:
  void Add(const std::string& name, const Shape& shape) { theirs_.push_back({name, Random(shape)}); }
  void AddNorm(const std::string& name, int64_t channels) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
      Add(absl::StrCat(name, part), {channels});
    }
    theirs_.push_back({absl::StrCat(name, ".num_batches_tracked"), Tensor::Scalar<int64_t>(7)});
  }
  // The names and shapes of torchvision's ResNet-50 with 10 classes.
  void AddResNet50() {
    Add("conv1.weight", {64, 3, 7, 7});
    AddNorm("bn1", 64);
    int64_t before = 64;
    const int blocks[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; ++stage) {
      const int64_t width = int64_t{64} << stage;
      for (int block = 0; block < blocks[stage]; ++block) {
        const std::string at = absl::StrCat("layer", stage + 1, ".", block, ".");
        Add(at + "conv1.weight", {width, before, 1, 1});
        Add(at + "conv2.weight", {width, width, 3, 3});
        Add(at + "conv3.weight", {4 * width, width, 1, 1});
        for (int i = 1; i <= 3; ++i) AddNorm(absl::StrCat(at, "bn", i), i < 3 ? width : 4 * width);
        if (block == 0) {
          Add(at + "downsample.0.weight", {4 * width, before, 1, 1});
          AddNorm(at + "downsample.1", 4 * width);
        }
        before = 4 * width;
      }
    }
    Add("fc.weight", {10, 2048});
    Add("fc.bias", {10});
  }
  // Names and shapes of ours must be all of the graph's.
  void ExpectTheGraphs(const std::vector<io::NamedTensor>& ours) {
    std::map<std::string, Shape> expected, actual;
    for (const Variable& variable : graph_.variables()) expected[variable.name()] = variable.shape();
    for (const io::NamedTensor& tensor : ours) actual[tensor.name] = tensor.value.shape();
    EXPECT_EQ(actual.size(), ours.size());
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, shape] : expected) EXPECT_EQ(actual[name], shape) << name;
  }
  const Tensor& Their(const std::string& name) const {
    for (const io::NamedTensor& tensor : theirs_) {
      if (tensor.name == name) return tensor.value;
    }
    return theirs_.at(0).value;
  }

  std::vector<io::NamedTensor> theirs_;
  std::string network_;
};

const Tensor& Named(const std::vector<io::NamedTensor>& tensors, const std::string& name) {
  for (const io::NamedTensor& tensor : tensors) {
    if (tensor.name == name) return tensor.value;
  }
  ADD_FAILURE() << name;
  return tensors.at(0).value;
}

TEST_F(ForeignWeights, OfTorchvisionsResNet) {
  AddResNet50();
  DeepResNet(scope_, Images(64, 64, 3), 50, {.classes = 10});
  ASSERT_OK_AND_ASSIGN(const auto ours, OurWeights(theirs_, network_));
  EXPECT_EQ(network_, "ResNet of torchvision");
  ExpectTheGraphs(ours);
  const Tensor &filter = Their("layer2.3.conv2.weight"), &turned = Named(ours, "stage2/block4/conv2/weights");
  for (int64_t k = 0; k < 128; k += 31) {
    for (int64_t c = 0; c < 128; c += 17) {
      for (int64_t at = 0; at < 9; ++at) {
        ASSERT_EQ(turned.data<float>()[(at * 128 + c) * 128 + k], filter.data<float>()[(k * 128 + c) * 9 + at]);
      }
    }
  }
  const Tensor &dense = Their("fc.weight"), &transposed = Named(ours, "logits/weights");
  for (int64_t i = 0; i < 10; ++i) ASSERT_EQ(transposed.data<float>()[17 * 10 + i], dense.data<float>()[i * 2048 + 17]);
  EXPECT_TRUE(SameBits(Named(ours, "conv1/bn/moving_variance"), Their("bn1.running_var")));
}

TEST_F(ForeignWeights, OfGpt2) {
  for (const std::string prefix : {"", "transformer.", "module.transformer."}) {
    theirs_.clear();
    Add(prefix + "wte.weight", {50, 12});
    Add(prefix + "wpe.weight", {20, 12});
    for (int layer = 0; layer < 2; ++layer) {
      const std::string at = absl::StrCat(prefix, "h.", layer, ".");
      Add(at + "attn.bias", {1, 1, 20, 20});  // its causal mask
      Add(at + "attn.c_attn.weight", {12, 36});
      Add(at + "attn.c_attn.bias", {36});
      Add(at + "attn.c_proj.weight", {12, 12});
      Add(at + "attn.c_proj.bias", {12});
      Add(at + "mlp.c_fc.weight", {12, 48});
      Add(at + "mlp.c_fc.bias", {48});
      Add(at + "mlp.c_proj.weight", {48, 12});
      Add(at + "mlp.c_proj.bias", {12});
      for (const char* norm : {"ln_1", "ln_2"}) {
        Add(absl::StrCat(at, norm, ".weight"), {12});
        Add(absl::StrCat(at, norm, ".bias"), {12});
      }
    }
    Add(prefix + "ln_f.weight", {12});
    Add(prefix + "ln_f.bias", {12});
    if (prefix.empty()) {
      const Output tokens = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown, Shape::kUnknown});
      Transformer(scope_, tokens, {.vocabulary = 50, .length = 20, .layers = 2, .heads = 3, .width = 12});
    }
    ASSERT_OK_AND_ASSIGN(const auto ours, OurWeights(theirs_, network_));
    EXPECT_EQ(network_, "GPT-2 of Hugging Face");
    ExpectTheGraphs(ours);
    EXPECT_TRUE(SameBits(Named(ours, "layer1/mlp/hidden/weights"), Their(prefix + "h.1.mlp.c_fc.weight")));
  }
}

// q, k and v apart, which ours has joined; of files from TensorFlow, normalisations have gamma and beta.
TEST_F(ForeignWeights, OfBert) {
  const auto dense = [&](const std::string& name, int64_t in, int64_t out) {
    Add(name + ".weight", {out, in});
    Add(name + ".bias", {out});
  };
  for (const bool old : {false, true}) {
    theirs_.clear();
    const std::string prefix = old ? "bert." : "";
    const auto norm = [&](const std::string& name) {
      Add(name + (old ? ".LayerNorm.gamma" : ".LayerNorm.weight"), {6});
      Add(name + (old ? ".LayerNorm.beta" : ".LayerNorm.bias"), {6});
    };
    for (const auto& [table, rows] :
         {std::pair<const char*, int64_t>{"word", 30}, {"position", 9}, {"token_type", 2}}) {
      Add(absl::StrCat(prefix, "embeddings.", table, "_embeddings.weight"), {rows, 6});
    }
    norm(prefix + "embeddings");
    for (int layer = 0; layer < 2; ++layer) {
      const std::string at = absl::StrCat(prefix, "encoder.layer.", layer, ".");
      for (const char* part : {"value", "query", "key"}) dense(absl::StrCat(at, "attention.self.", part), 6, 6);
      dense(at + "attention.output.dense", 6, 6);
      norm(at + "attention.output");
      dense(at + "intermediate.dense", 6, 10);
      dense(at + "output.dense", 10, 6);
      norm(at + "output");
    }
    dense(prefix + "pooler.dense", 6, 6);
    Add("cls.predictions.bias", {30});
    if (!old) {
      const Output tokens = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown, Shape::kUnknown});
      TextEncoder(scope_, tokens, {}, {},
                  {.vocabulary = 30, .length = 9, .layers = 2, .heads = 2, .width = 6, .hidden = 10});
    }
    ASSERT_OK_AND_ASSIGN(const auto ours, OurWeights(theirs_, network_));
    EXPECT_EQ(network_, "BERT of Hugging Face");
    ExpectTheGraphs(ours);
    const Tensor& joined = Named(ours, "layer1/attention/qkv/weights");
    const Tensor& key = Their(prefix + "encoder.layer.1.attention.self.key.weight");
    for (int64_t in = 0; in < 6; ++in) {
      for (int64_t out = 0; out < 6; ++out) {
        ASSERT_EQ(joined.data<float>()[in * 18 + 6 + out], key.data<float>()[out * 6 + in]);
      }
    }
  }
  const auto without = [&](const std::string& name) {
    std::vector<io::NamedTensor> some;
    for (const io::NamedTensor& tensor : theirs_) {
      if (tensor.name != name) some.push_back(tensor);
    }
    return std::string(OurWeights(some, network_).status().message());
  };
  EXPECT_THAT(without("bert.encoder.layer.0.attention.self.key.bias"),
              HasSubstr("'layer0/attention/qkv/biases' needs 3 tensors of one shape and dtype, but 2 are there"));
}

TEST_F(ForeignWeights, LeavesOthersAsTheyAre) {
  Add("layer0/mlp/hidden/weights", {3, 4});
  Add("conv1.weight", {2});
  ASSERT_OK_AND_ASSIGN(const auto ours, OurWeights(theirs_, network_));
  EXPECT_EQ(network_, "");
  ASSERT_EQ(ours.size(), 2u);
  EXPECT_EQ(ours[0].name, "layer0/mlp/hidden/weights");
}

TEST_F(ForeignWeights, SaysWhatDoesNotFit) {
  Add("layer1.0.conv1.weight", {64, 64, 3});
  EXPECT_THAT(OurWeights(theirs_, network_).status().message(),
              HasSubstr("'layer1.0.conv1.weight' has shape [64,64,3]; expected 4 dimensions"));
}

TEST_F(ForeignWeights, InSeveralFiles) {
  const TemporaryFolder folder;
  const Tensor a = Random({3}), b = Random({2, 2});
  ASSERT_TRUE(io::WriteSafetensors(folder / "1.safetensors", {{"a", a}, {"unlisted", b}}).ok());
  ASSERT_TRUE(io::WriteSafetensors(folder / "2.safetensors", {{"b", b}}).ok());
  const std::string index = folder / "model.safetensors.index.json";
  const auto read = [&](const std::string& text) {
    std::ofstream(index) << text;
    return ReadWeightFiles(index);
  };
  ASSERT_OK_AND_ASSIGN(const auto both,
                       read(R"({"metadata": {}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})"));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_TRUE(SameBits(Named(both, "a"), a));
  EXPECT_TRUE(SameBits(Named(both, "b"), b));
  EXPECT_THAT(read(R"({"weight_map": {"c": "1.safetensors"}})").status().message(),
              HasSubstr("1.safetensors has no 'c'"));
  EXPECT_THAT(read(R"({"weight_map": {"c": "../1.safetensors"}})").status().message(),
              HasSubstr("does not name a file beside it"));
  EXPECT_THAT(read("[]").status().message(), HasSubstr("no \"weight_map\""));
  EXPECT_FALSE(read(R"({"weight_map": {"c": "3.safetensors"}})").ok());
}

}  // namespace
}  // namespace belfry::models
