#include "trainers/datasets/markov_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "tests/trainers/datasets/random_records.h"
#include "trainers/datasets/language.h"

namespace belfry::data {
namespace {

using absl::StatusCode;

MarkovSource Source(const MarkovOptions& options) { return ValueOf(MarkovSource::Create(options)); }

TEST(MarkovSource, ProbabilitiesAreADistributionThatTheStationaryOneBelongsTo) {
  FreshRandom random;
  for (const auto& [vocabulary, order] : {std::pair<int64_t, int64_t>{2, 1}, {5, 3}, {16, 2}, {30, 1}}) {
    const MarkovSource source = Source({.seed = static_cast<uint64_t>(random.Between(0, 1 << 30)),
                                        .vocabulary = vocabulary,
                                        .order = order,
                                        .successors = std::min<int64_t>(4, vocabulary)});
    std::vector<double> next(source.contexts());
    double all = 0;
    for (int64_t context = 0; context < source.contexts(); ++context) {
      double sum = 0;
      for (int32_t token = 0; token < vocabulary; ++token) {
        const double p = source.Probability(context, token);
        EXPECT_GT(p, 0);
        sum += p;
        next[(context * vocabulary + token) % source.contexts()] += source.stationary()[context] * p;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
      all += source.stationary()[context];
    }
    EXPECT_NEAR(all, 1, 1e-10);
    for (size_t i = 0; i < next.size(); ++i) EXPECT_NEAR(next[i], source.stationary()[i], 1e-11);
  }
}

// The mean of -log P over much text, by P's own words and by counting.
TEST(MarkovSource, TextHasTheEntropyThatIsSaid) {
  const MarkovSource source = Source({});
  constexpr int64_t kTexts = 2000, kLength = 102;
  std::vector<int32_t> text(kLength);
  double sum = 0, square = 0, first = 0;
  std::vector<int64_t> counts(source.vocabulary());
  for (int64_t i = 0; i < kTexts; ++i) {
    source.Write(7, i, absl::MakeSpan(text));
    double of_text = 0;
    for (int64_t j = 2; j < kLength; ++j)
      of_text -= std::log(source.Probability(text[j - 2] * 16 + text[j - 1], text[j]));
    of_text /= kLength - 2;
    sum += of_text, square += of_text * of_text;
    ++counts[text[0]];
  }
  const double mean = sum / kTexts, error = std::sqrt((square / kTexts - mean * mean) / kTexts);
  EXPECT_NEAR(mean, source.EntropyPerToken(), 5 * error);
  EXPECT_LT(error, 0.01);
  // The first token is as frequent as any other, by the stationary distribution.
  for (int64_t token = 0; token < 16; ++token) {
    double share = 0;
    for (int64_t c = token; c < 256; c += 16) share += source.stationary()[c];
    EXPECT_NEAR(static_cast<double>(counts[token]) / kTexts, share, 5 * std::sqrt(share / kTexts));
    first -= share * std::log(share);
  }
  // With one token before, with two, and with all that fit into a window.
  EXPECT_GT(first, source.EntropyPerTarget(2));
  EXPECT_GT(source.EntropyPerTarget(2), source.EntropyPerTarget(3));
  EXPECT_NEAR(source.EntropyPerTarget(100'000), source.EntropyPerToken(), 1e-4);
  EXPECT_NEAR(source.EntropyPerToken(), 0.96, 0.2);
}

TEST(MarkovSource, TextDependsOnOptionsKeyAndIndexOnly) {
  const auto write = [](const MarkovOptions& options, uint64_t key, int64_t index, size_t length) {
    std::vector<int32_t> text(length);
    Source(options).Write(key, index, absl::MakeSpan(text));
    return text;
  };
  const std::vector<int32_t> text = write({}, 1, 2, 50);
  EXPECT_EQ(text, write({}, 1, 2, 50));
  EXPECT_NE(text, write({}, 1, 3, 50));
  EXPECT_NE(text, write({}, 2, 2, 50));
  EXPECT_NE(text, write({.seed = 2}, 1, 2, 50));
  for (const size_t length : {0, 1, 2, 7}) {
    EXPECT_EQ(write({}, 1, 2, length), std::vector<int32_t>(text.begin(), text.begin() + length));
  }
}

TEST(MarkovSource, RefusesOptionsOutOfRange) {
  for (const auto& [options, what] :
       {std::pair<MarkovOptions, const char*>{{.vocabulary = 1}, "vocabulary is 1; expected 2 to 65536"},
        {{.order = 0}, "order is 0"},
        {{.successors = 0}, "successors is 0; expected 1 to 16"},
        {{.vocabulary = 3, .successors = 4}, "successors is 4; expected 1 to 3"},
        {{.vocabulary = 256, .order = 3}, "more than 65536 contexts"},
        {{.order = std::numeric_limits<int64_t>::max()}, "order is"}}) {
    ExpectError(MarkovSource::Create(options).status(), StatusCode::kInvalidArgument, what);
  }
}

TEST(Language, WindowsOfTrainingAndValidationDiffer) {
  ASSERT_OK_AND_ASSIGN(const auto language,
                       GenerateLanguage({.window = 9, .training_windows = 3, .validation_windows = 2}));
  EXPECT_GT(language.loss_floor, language.entropy_per_token);
  EXPECT_EQ(language.data.train->size(), 3);
  EXPECT_EQ(language.data.validation->size(), 2);
  const auto first = ReadExample(*language.data.train, 0), held_out = ReadExample(*language.data.validation, 0);
  ASSERT_TRUE(first.ok() && held_out.ok());
  for (int i = 1; i < 9; ++i) EXPECT_EQ((*first)[0].data<int32_t>()[i], (*first)[1].data<int32_t>()[i - 1]);
  EXPECT_NE(0, std::memcmp((*first)[0].raw(), (*held_out)[0].raw(), 9 * sizeof(int32_t)));
  ExpectError(GenerateLanguage({.window = 0}).status(), StatusCode::kInvalidArgument, "window is 0");
}

}  // namespace
}  // namespace belfry::data
