#include "models/networks/text_generator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "ops/array.h"

namespace belfry::models {
namespace {

// Tokens of a prompt that go through the network at once. More would not read the weights much less often, and cost
// more for the padding of the last piece.
constexpr int64_t kPiece = 32;

}  // namespace

StepModel MakeStepModel(OpScope scope, const TransformerOptions& options) {
  constexpr int64_t kAny = Shape::kUnknown;
  const Output tokens = ops::Placeholder(scope.Named("tokens"), DType::kInt32, {kAny, kAny});
  const Output past = ops::Placeholder(scope.Named("past"), DType::kInt32, {kAny});
  const std::vector<Output> keys = CachePlaceholders(scope, "keys", kAny, kAny, options);
  const std::vector<Output> values = CachePlaceholders(scope, "values", kAny, kAny, options);
  const TransformerStepOutputs made = TransformerStep(scope, tokens, past, keys, values, options);
  const Output logits = made.logits.valid() && made.logits.dtype() != DType::kFloat32
                            ? ops::Cast(scope, made.logits, DType::kFloat32)
                            : made.logits;
  StepModel model{.inputs = {{"tokens", tokens}, {"past", past}}, .outputs = {{"logits", logits}}};
  for (size_t i = 0; i < made.keys.size(); ++i) {
    model.inputs.push_back({absl::StrCat("keys", i), keys[i]});
    model.inputs.push_back({absl::StrCat("values", i), values[i]});
    model.outputs.push_back({absl::StrCat("new_keys", i), made.keys[i]});
    model.outputs.push_back({absl::StrCat("new_values", i), made.values[i]});
  }
  return model;
}

TextGenerator::TextGenerator(OpScope scope, const TransformerOptions& options) : options_(options) {
  tokens_ = ops::Placeholder(scope.Named("tokens"), DType::kInt32, {1, Shape::kUnknown});
  past_ = ops::Placeholder(scope.Named("past"), DType::kInt32, {1});
  const std::vector<Output> keys = CachePlaceholders(scope, "keys", 1, options.length, options);
  const std::vector<Output> values = CachePlaceholders(scope, "values", 1, options.length, options);
  const TransformerStepOutputs made = TransformerStep(scope, tokens_, past_, keys, values, options);
  if (!made.logits.valid()) return;
  cache_ = keys;
  cache_.insert(cache_.end(), values.begin(), values.end());
  fetches_ = {ops::Cast(scope, made.logits, DType::kFloat32)};
  fetches_.insert(fetches_.end(), made.keys.begin(), made.keys.end());
  fetches_.insert(fetches_.end(), made.values.begin(), made.values.end());
}

TextGenerator::Step TextGenerator::StepOf(int64_t tokens) const {
  Step step{.feeds = {{tokens_, {1, tokens}}, {past_, {1}}}, .fetches = fetches_};
  for (const Output& half : cache_) step.feeds.push_back({half, half.shape()});
  return step;
}

std::vector<TextGenerator::Step> TextGenerator::Steps() const {
  return {StepOf(std::min(kPiece, options_.length)), StepOf(1)};
}

// The cache of a text, and the steps that fill it.
class TextGenerator::Run {
 public:
  static absl::StatusOr<Run> Create(const TextGenerator& generator, Session& session) {
    Run run(generator.options_);
    for (const Step& step : generator.Steps()) {
      ASSIGN_OR_RETURN(run.steps_.emplace_back(), session.Prepare(step.feeds, step.fetches));
      run.widths_.push_back(step.feeds[0].shape[1]);
    }
    run.feeds_ = {Tensor(), Tensor::Zeros(DType::kInt32, {1})};
    for (const Output& half : generator.cache_) run.feeds_.push_back(Tensor::Zeros(half.dtype(), half.shape()));
    return run;
  }

  // The logits after the last token of `text`, which goes on from that of the last call; valid until the next one.
  absl::StatusOr<absl::Span<const float>> LogitsAfter(absl::Span<const int32_t> text) {
    if (static_cast<int64_t>(text.size()) - begin_ > options_.length) {
      begin_ = static_cast<int64_t>(text.size()) - (options_.length + 1) / 2;
      past_ = 0;
    }
    absl::Span<const float> logits;
    for (text.remove_prefix(static_cast<size_t>(begin_ + past_)); !text.empty();) {
      const size_t step = text.size() == 1 ? 1 : 0;
      const auto count = std::min(text.size(), static_cast<size_t>(widths_[step]));
      RETURN_IF_ERROR(Add(text.first(count), step));
      logits = {steps_[step]->fetched(0).data<float>() + (static_cast<int64_t>(count) - 1) * options_.vocabulary,
                static_cast<size_t>(options_.vocabulary)};
      text.remove_prefix(count);
    }
    return logits;
  }

 private:
  explicit Run(const TransformerOptions& options) : options_(options) {}

  absl::Status Add(absl::Span<const int32_t> tokens, size_t step) {
    const int64_t width = widths_[step], count = static_cast<int64_t>(tokens.size());
    feeds_[0] = Tensor::Zeros(DType::kInt32, {1, width});
    std::copy(tokens.begin(), tokens.end(), feeds_[0].data<int32_t>());
    feeds_[1].data<int32_t>()[0] = static_cast<int32_t>(past_);
    RETURN_IF_ERROR(steps_[step]->Run(feeds_));
    RETURN_IF_ERROR(steps_[step]->Wait());
    for (size_t i = 2; i < feeds_.size(); ++i) {
      const size_t row = feeds_[i].bytes() / static_cast<size_t>(options_.length);
      std::memcpy(static_cast<char*>(feeds_[i].raw()) + static_cast<size_t>(past_) * row,
                  steps_[step]->fetched(static_cast<int>(i) - 1).raw(), static_cast<size_t>(count) * row);
    }
    past_ += count;
    return absl::OkStatus();
  }

  const TransformerOptions& options_;
  std::vector<std::unique_ptr<PreparedStep>> steps_;
  std::vector<int64_t> widths_;   // tokens that each takes
  std::vector<Tensor> feeds_;     // tokens, past, and the cache
  int64_t begin_ = 0, past_ = 0;  // the cache holds tokens [begin_, begin_ + past_) of the text
};

absl::StatusOr<std::vector<int32_t>> TextGenerator::Generate(Session& session, std::vector<int32_t> prompt,
                                                             const GenerateOptions& options) const {
  RETURN_IF_ERROR(CheckTokenChoice(options.choice));
  if (options.count < 0) {
    return absl::InvalidArgumentError(absl::StrCat("count is ", options.count, "; expected at least 0"));
  }
  for (const int32_t token : prompt) {
    if (0 <= token && token < options_.vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has token ", token, "; expected 0 to ", options_.vocabulary - 1));
  }
  if (options.count == 0) return prompt;
  ASSIGN_OR_RETURN(Run run, Run::Create(*this, session));
  const bool empty = prompt.empty();
  if (empty) prompt.push_back(0);
  PhiloxStream random(RandomKey(options.seed, "sample"), 0);
  for (int64_t i = 0; i < options.count; ++i) {
    ASSIGN_OR_RETURN(const absl::Span<const float> logits, run.LogitsAfter(prompt));
    const uint32_t high = random.Next();
    const int32_t next = ChooseToken(logits, options.choice, UniformDouble(high, random.Next()));
    if (next < 0) return absl::AbortedError(absl::StrCat("a logit of token ", prompt.size(), " of the text is NaN"));
    prompt.push_back(next);
    const bool goes_on = !options.use || options.use(next);
    if (!goes_on || std::find(options.stop.begin(), options.stop.end(), next) != options.stop.end()) break;
  }
  if (empty) prompt.erase(prompt.begin());
  return prompt;
}

}  // namespace belfry::models
