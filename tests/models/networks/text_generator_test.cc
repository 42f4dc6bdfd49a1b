#include "models/networks/text_generator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/runtime/saved_model/saved_model.h"
#include "tests/models/model_test.h"

namespace belfry::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int64_t kSpeakerContext = 40;
const TransformerOptions kSpeaker = {.vocabulary = 23,
                                     .length = kSpeakerContext,
                                     .layers = 2,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .width = 16,
                                     .training = false};

class TextGeneratorTest : public ModelTest {
 protected:
  // Larger weights than initial ones, so that logits differ.
  void Enlarge() {
    for (const Variable& variable : graph_.variables()) {
      Tensor value = session_->ReadVariable(variable)->Clone();
      if (variable.shape().rank() < 2) continue;
      for (int64_t i = 0; i < value.elements(); ++i) value.data<float>()[i] *= 12;
      ASSERT_TRUE(session_->WriteVariable(variable, value).ok());
    }
  }
  static Tensor Tokens(int64_t n, int64_t t, int seed) {
    Tensor tokens(DType::kInt32, {n, t});
    for (int64_t i = 0; i < n * t; ++i) tokens.data<int32_t>()[i] = static_cast<int32_t>((i * i * 7 + i + seed) % 23);
    return tokens;
  }
  // The likeliest tokens one by one, each from a run of the whole text.
  std::vector<int32_t> WithoutCache(Output tokens, Output logits, std::vector<int32_t> text, int count) {
    for (int i = 0; i < count; ++i) {
      Tensor fed(DType::kInt32, {1, static_cast<int64_t>(text.size())});
      std::copy(text.begin(), text.end(), fed.data<int32_t>());
      const Tensor made = Run({{tokens, fed}}, {logits})[0];
      const float* const last = made.data<float>() + (made.shape()[1] - 1) * 23;
      text.push_back(static_cast<int32_t>(std::max_element(last, last + 23) - last));
    }
    return text;
  }
};

// Three sequences that continue 0, 5 and 9 tokens, whose padding in the cache holds large numbers.
TEST_F(TextGeneratorTest, AStepHasTheLogitsOfTheWhole) {
  for (const bool rotary : {false, true}) {
    TransformerOptions options = kSpeaker;
    options.rotary = rotary;
    options.tied = !rotary;
    const Scope at = scope_.VariableScope(rotary ? "rotary" : "learned");
    const Output tokens = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown, Shape::kUnknown});
    const Output past = ops::Placeholder(scope_, DType::kInt32, {Shape::kUnknown});
    const Output whole = Transformer(at, tokens, options);
    const auto keys = CachePlaceholders(scope_, "keys", Shape::kUnknown, Shape::kUnknown, options);
    const auto values = CachePlaceholders(scope_, "values", Shape::kUnknown, Shape::kUnknown, options);
    const TransformerStepOutputs step =
        TransformerStep(at.ReuseVariables(Reuse::kAlways), tokens, past, keys, values, options);
    Start();
    Enlarge();
    constexpr int64_t kN = 3, kT = 4, kS = 12, kRow = 2 * 4;
    const int32_t earlier[] = {0, 5, 9};
    const Tensor text = Tokens(kN, kS + kT, 3);
    const auto feed_cache = [&](int64_t s, std::vector<Feed>& feeds, float fill) {
      for (const auto* half : {&keys, &values}) {
        for (const Output& cache : *half) {
          Tensor value(DType::kFloat32, {kN, s, 2, 4});
          std::fill_n(value.data<float>(), value.elements(), fill);
          feeds.push_back({cache, value});
        }
      }
    };
    std::vector<Feed> first = {{tokens, text}, {past, Tensor::Zeros(DType::kInt32, {kN})}};
    feed_cache(0, first, 0);
    const std::vector<Tensor> all =
        Run(first, {step.logits, step.keys[0], step.keys[1], step.values[0], step.values[1]});
    const Tensor expected = Run({{tokens, text}}, {whole})[0];
    for (int64_t i = 0; i < expected.elements(); ++i) {
      ASSERT_NEAR(all[0].data<float>()[i], expected.data<float>()[i], 1e-5) << i;
    }
    Tensor next(DType::kInt32, {kN, kT});
    std::vector<Feed> second = {{tokens, next},
                                {past, Tensor::Of<int32_t>({earlier[0], earlier[1], earlier[2]}, {kN})}};
    feed_cache(kS, second, 1e9f);
    for (int64_t n = 0; n < kN; ++n) {
      std::copy_n(text.data<int32_t>() + n * (kS + kT) + earlier[n], kT, next.data<int32_t>() + n * kT);
      for (size_t half = 0; half < 4; ++half) {
        std::copy_n(all[half + 1].data<float>() + n * (kS + kT) * kRow, earlier[n] * kRow,
                    second[half + 2].value.data<float>() + n * kS * kRow);
      }
    }
    const Tensor made = Run(second, {step.logits})[0];
    double spread = 0;
    for (int64_t i = 0; i < made.elements(); ++i) {
      const int64_t n = i / (kT * 23), at_whole = (n * (kS + kT) + earlier[n]) * 23 + i % (kT * 23);
      ASSERT_NEAR(made.data<float>()[i], expected.data<float>()[at_whole], 1e-5) << i;
      spread = std::max(spread, std::abs(static_cast<double>(made.data<float>()[i])));
    }
    EXPECT_GT(spread, 0.5);
  }
}

TEST_F(TextGeneratorTest, MakesTheTextThatIsMadeWithoutACache) {
  const Output tokens = ops::Placeholder(scope_, DType::kInt32, {1, Shape::kUnknown});
  const Output logits = Transformer(scope_, tokens, kSpeaker);
  const TextGenerator generator(scope_.ReuseVariables(Reuse::kAlways), kSpeaker);
  Start();
  Enlarge();
  for (const int64_t size : {1, 2, 31, 32, 33, 37}) {
    const Tensor first = Tokens(1, size, 5);
    const std::vector<int32_t> prompt(first.data<int32_t>(), first.data<int32_t>() + size);
    const int count = static_cast<int>(kSpeakerContext - size);
    ASSERT_OK_AND_ASSIGN(const auto text,
                         generator.Generate(*session_, prompt, {.count = count, .choice = {.temperature = 0}}));
    EXPECT_EQ(text, WithoutCache(tokens, logits, prompt, count)) << size;
  }
}

// The 41st token follows from the last 20 before it.
TEST_F(TextGeneratorTest, ForgetsHalfOfAFullContext) {
  const Output tokens = ops::Placeholder(scope_, DType::kInt32, {1, Shape::kUnknown});
  const Output logits = Transformer(scope_, tokens, kSpeaker);
  const TextGenerator generator(scope_.ReuseVariables(Reuse::kAlways), kSpeaker);
  Start();
  Enlarge();
  ASSERT_OK_AND_ASSIGN(const auto text,
                       generator.Generate(*session_, {3, 1, 4}, {.count = 58, .choice = {.temperature = 0}}));
  ASSERT_EQ(text.size(), 61u);
  const std::vector<int32_t> kept(text.begin() + 21, text.begin() + 41);
  const std::vector<int32_t> expected = WithoutCache(tokens, logits, kept, 20);
  EXPECT_EQ(std::vector<int32_t>(text.begin() + 21, text.end()), expected);
}

TEST_F(TextGeneratorTest, EndsWhereItShould) {
  Transformer(scope_, ops::Placeholder(scope_, DType::kInt32, {1, 8}), kSpeaker);
  const TextGenerator generator(scope_.ReuseVariables(Reuse::kAlways), kSpeaker);
  Start();
  ASSERT_OK_AND_ASSIGN(const auto all, generator.Generate(*session_, {}, {.count = 30, .seed = 7}));
  ASSERT_EQ(all.size(), 30u);
  EXPECT_EQ(*generator.Generate(*session_, {}, {.count = 30, .seed = 7}), all);
  EXPECT_NE(*generator.Generate(*session_, {}, {.count = 30, .seed = 8}), all);
  const int32_t stop = all.at(9);
  const auto end = std::find(all.begin(), all.end(), stop) + 1;
  const auto stopped = generator.Generate(*session_, {}, {.count = 30, .seed = 7, .stop = {stop}});
  EXPECT_EQ(*stopped, std::vector<int32_t>(all.begin(), end));
  std::vector<int32_t> seen;
  const auto use = [&](int32_t token) {
    seen.push_back(token);
    return seen.size() < 5;
  };
  const auto cut = generator.Generate(*session_, {}, {.count = 30, .seed = 7, .use = use});
  EXPECT_EQ(*cut, std::vector<int32_t>(all.begin(), all.begin() + 5));
  EXPECT_EQ(seen, *cut);
  EXPECT_THAT(*generator.Generate(*session_, {1, 2}, {.count = 0}), ElementsAre(1, 2));
}

// examples/generate.c, which links libbelfry_inference and nothing else of Belfry.
TEST_F(TextGeneratorTest, AProgramWithoutTrainingMakesTheSameText) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "generate";
  if (!fs::exists(program)) GTEST_SKIP() << program << " is not built";
  const StepModel model = MakeStepModel(scope_, kSpeaker);
  const TextGenerator generator(scope_.ReuseVariables(Reuse::kAlways), kSpeaker);
  Start();
  Enlarge();
  const TemporaryFolder folder;
  ASSERT_TRUE(SaveModel(*session_, model.inputs, model.outputs, folder / "model").ok());
  const std::string command =
      absl::StrCat(program.string(), " ", folder / "model", " ", kSpeakerContext, " 30 3 1 4 > ", folder / "tokens");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::vector<int32_t> text = {3, 1, 4};
  std::ifstream tokens(folder / "tokens");
  for (int32_t token; tokens >> token;) text.push_back(token);
  EXPECT_EQ(text, *generator.Generate(*session_, {3, 1, 4}, {.count = 30, .choice = {.temperature = 0}}));
}

TEST_F(TextGeneratorTest, NamesWhatIsWrong) {
  Transformer(scope_, ops::Placeholder(scope_, DType::kInt32, {1, 8}), kSpeaker);
  const TextGenerator generator(scope_.ReuseVariables(Reuse::kAlways), kSpeaker);
  Start();
  const auto message = [&](std::vector<int32_t> prompt, const GenerateOptions& options) {
    return std::string(generator.Generate(*session_, std::move(prompt), options).status().message());
  };
  EXPECT_THAT(message({23}, {}), HasSubstr("the prompt has token 23; expected 0 to 22"));
  EXPECT_THAT(message({}, {.count = -1}), HasSubstr("count is -1"));
  EXPECT_THAT(message({}, {.choice = {.temperature = -1}}), HasSubstr("the temperature is -1"));
  Tensor table = session_->ReadVariable(Find("token_embedding"))->Clone();
  table.data<float>()[0] = NAN;
  ASSERT_TRUE(session_->WriteVariable(Find("token_embedding"), table).ok());
  EXPECT_THAT(message({0}, {}), HasSubstr("a logit of token 1 of the text is NaN"));
}

// The share of each token in draws at evenly spread random numbers.
std::map<int32_t, double> Shares(const std::vector<float>& logits, const TokenChoiceOptions& options) {
  std::map<int32_t, double> shares;
  for (int i = 0; i < 10'000; ++i) shares[ChooseToken(logits, options, (i + 0.5) / 10'000)] += 1e-4;
  return shares;
}

TEST(TokenChoice, DrawsWithTheProbabilities) {
  const std::vector<float> logits = {0, std::log(4.f), -INFINITY, std::log(3.f), std::log(2.f)};
  const auto expect = [&](const TokenChoiceOptions& options, const std::map<int32_t, double>& expected) {
    const std::map<int32_t, double> shares = Shares(logits, options);
    EXPECT_EQ(shares.size(), expected.size());
    for (const auto& [token, share] : expected) EXPECT_NEAR(shares.count(token) ? shares.at(token) : 0, share, 3e-4);
  };
  expect({}, {{0, 0.1}, {1, 0.4}, {3, 0.3}, {4, 0.2}});
  expect({.temperature = 0.5}, {{0, 1 / 30.}, {1, 16 / 30.}, {3, 9 / 30.}, {4, 4 / 30.}});
  expect({.temperature = 0}, {{1, 1}});
  expect({.top_k = 2}, {{1, 4 / 7.}, {3, 3 / 7.}});
  expect({.top_k = 1}, {{1, 1}});
  expect({.top_k = 100}, {{0, 0.1}, {1, 0.4}, {3, 0.3}, {4, 0.2}});
  expect({.top_p = 0.39}, {{1, 1}});
  expect({.top_p = 0.41}, {{1, 4 / 7.}, {3, 3 / 7.}});
  expect({.top_p = 0.71}, {{1, 4 / 9.}, {3, 3 / 9.}, {4, 2 / 9.}});
  expect({.top_k = 2, .top_p = 0.5}, {{1, 1}});  // of the two: 4 / 7
  EXPECT_EQ(ChooseToken({1, 5, 5, 2}, {.top_k = 1}, 0.9), 1);
  EXPECT_EQ(ChooseToken({1, NAN}, {}, 0.5), -1);
  EXPECT_EQ(ChooseToken({INFINITY, 1}, {}, 0.9), 0);
}

TEST(TokenChoice, RefusesOptionsOutOfRange) {
  EXPECT_TRUE(CheckTokenChoice({}).ok());
  EXPECT_FALSE(CheckTokenChoice({.temperature = NAN}).ok());
  EXPECT_FALSE(CheckTokenChoice({.temperature = INFINITY}).ok());
  EXPECT_FALSE(CheckTokenChoice({.top_k = -1}).ok());
  EXPECT_FALSE(CheckTokenChoice({.top_p = 0}).ok());
  EXPECT_FALSE(CheckTokenChoice({.top_p = 1.1}).ok());
}

}  // namespace
}  // namespace belfry::models
