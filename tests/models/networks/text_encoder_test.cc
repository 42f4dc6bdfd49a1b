#include "models/networks/text_encoder.h"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/io/safetensors.h"
#include "models/layers/parameters.h"
#include "models/weights/foreign_weights.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::HasSubstr;

constexpr TextEncoderOptions kSmallEncoder = {
    .vocabulary = 30, .length = 9, .layers = 2, .heads = 3, .width = 12, .hidden = 20, .training = false};

class TextEncoderTest : public ModelTest {
 protected:
  Output Integers() { return ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown, Shape::kUnknown}); }
  Output Mask() { return ops::Placeholder(scope_, DType::kBool, {Shape::kUnknown, Shape::kUnknown}); }
};

TEST_F(TextEncoderTest, IsBertBaseByDefault) {
  const TextEncoderOutputs outputs = TextEncoder(scope_, Integers(), Mask(), Integers());
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(outputs.hidden.shape(), Shape({Shape::kUnknown, Shape::kUnknown, 768}));
  EXPECT_EQ(outputs.pooled.shape(), Shape({Shape::kUnknown, 768}));
  EXPECT_EQ(ParameterCount(scope_), 109'482'240);
  EXPECT_EQ(Find("layer11/attention/qkv/weights").shape(), Shape({768, 2304}));
}

// Masked tokens change nothing; the tokens on both sides of one change it.
TEST_F(TextEncoderTest, SeesBothSidesButNoPadding) {
  const Output tokens = Integers(), mask = Mask();
  const TextEncoderOutputs outputs = TextEncoder(scope_, tokens, mask, {}, kSmallEncoder);
  Start();
  const Tensor some = Tensor::Of<bool>({true, true, true, true, false, false}, {1, 6});
  const auto hidden = [&](std::initializer_list<int32_t> text) {
    return Run({{tokens, Tensor::Of<int32_t>(text, {1, 6})}, {mask, some}}, {outputs.hidden})[0].Clone();
  };
  const Tensor a = hidden({1, 2, 3, 4, 5, 6}), b = hidden({1, 2, 3, 4, 7, 8}), c = hidden({1, 2, 3, 9, 5, 6});
  const Tensor d = hidden({9, 2, 3, 4, 5, 6});
  int later = 0, earlier = 0;
  for (int64_t i = 0; i < 4 * 12; ++i) {
    ASSERT_EQ(a.data<float>()[i], b.data<float>()[i]) << i;
    if (i < 12) later += a.data<float>()[i] != c.data<float>()[i];
    if (i >= 36) earlier += a.data<float>()[i] != d.data<float>()[i];
  }
  EXPECT_EQ(later, 12);
  EXPECT_EQ(earlier, 12);
}

TEST_F(TextEncoderTest, NamesWhatIsWrong) {
  TextEncoder(scope_, ops::Placeholder(scope_, DType::kInt32, {2, 10}), {}, {}, kSmallEncoder);
  EXPECT_THAT(graph_.status().message(), HasSubstr("has learned positions for 9 tokens"));
}

constexpr char kBertScript[] = R"(
import sys
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel
torch.manual_seed(1)
config = BertConfig(vocab_size=30, max_position_embeddings=9, num_hidden_layers=2, num_attention_heads=3,
                    hidden_size=12, intermediate_size=20)
model = BertModel(config).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.normal_(0.0, 0.5)
    tokens = torch.randint(0, 30, (3, 7))
    types = torch.randint(0, 2, (3, 7))
    mask = torch.arange(7)[None, :] < torch.tensor([[7], [4], [1]])
    outputs = model(input_ids=tokens, attention_mask=mask.long(), token_type_ids=types)
save_file({name: value.contiguous() for name, value in model.state_dict().items()}, sys.argv[1])
save_file({'tokens': tokens.int(), 'types': types.int(), 'mask': mask, 'hidden': outputs.last_hidden_state.contiguous(),
           'pooled': outputs.pooler_output.contiguous()}, sys.argv[2])
)";

TEST_F(TextEncoderTest, ComputesWhatTransformersDoes) {
  if (std::system("python3 -c 'import safetensors, torch, transformers' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3 with the packages safetensors, torch and transformers is not installed here";
  }
  const TemporaryFolder folder;
  folder.Write("script.py", kBertScript);
  const std::string weights = folder / "weights", values = folder / "values";
  ASSERT_EQ(std::system(absl::StrCat("python3 ", folder / "script.py", " ", weights, " ", values).c_str()), 0);

  const Output tokens = Integers(), mask = Mask(), types = Integers();
  const TextEncoderOutputs outputs = TextEncoder(scope_, tokens, mask, types, kSmallEncoder);
  Start();
  std::string network;
  ASSERT_OK_AND_ASSIGN(const auto ours, OurWeights(io::ReadSafetensors(weights).value(), network));
  EXPECT_EQ(network, "BERT of Hugging Face");
  EXPECT_EQ(ours.size(), graph_.variables().size());
  for (const io::NamedTensor& tensor : ours) {
    ASSERT_EQ(session_->WriteVariable(Find(tensor.name), tensor.value), absl::OkStatus());
  }
  std::map<std::string, Tensor> theirs;
  const std::vector<io::NamedTensor> read = io::ReadSafetensors(values).value();
  for (const io::NamedTensor& tensor : read) theirs[tensor.name] = tensor.value;
  const std::vector<Tensor> made = Run({{tokens, theirs["tokens"]}, {mask, theirs["mask"]}, {types, theirs["types"]}},
                                       {outputs.hidden, outputs.pooled});
  ASSERT_EQ(made[0].shape(), theirs["hidden"].shape());
  for (int64_t i = 0; i < made[0].elements(); ++i) {
    if (!theirs["mask"].data<bool>()[i / 12]) continue;
    ASSERT_NEAR(made[0].data<float>()[i], theirs["hidden"].data<float>()[i], 1e-5) << i;
  }
  for (int64_t i = 0; i < made[1].elements(); ++i) {
    ASSERT_NEAR(made[1].data<float>()[i], theirs["pooled"].data<float>()[i], 1e-5) << i;
  }
}

}  // namespace
}  // namespace belfry::models
