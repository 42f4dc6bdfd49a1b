#include "trainers/loop/text_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "ops/array.h"

namespace belfry::trainers {
namespace {

// A token by its logits; -1 if one is NaN. `random` is uniform in [0, 1).
int32_t Draw(absl::Span<const float> logits, double temperature, double random) {
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) return -1;
  const auto top = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return static_cast<int32_t>(top - logits.begin());
  const auto weight = [&](float x) { return std::exp((x - *top) / temperature); };
  double sum = 0;
  for (const float x : logits) sum += weight(x);
  double left = random * sum;
  for (size_t i = 0; i < logits.size(); ++i) {
    left -= weight(logits[i]);
    if (left < 0) return static_cast<int32_t>(i);
  }
  return static_cast<int32_t>(top - logits.begin());  // by rounding
}

}  // namespace

TextSampler::TextSampler(OpScope scope, int64_t context, const LogitsFunction& logits) : context_(context) {
  tokens_ = ops::Placeholder(scope.Named("tokens"), DType::kInt32, {1, context});
  const Output made = logits(scope, tokens_);
  if (!made.valid()) return;
  vocabulary_ = made.shape()[-1];
  logits_ = ops::Reshape(scope, ops::Cast(scope, made, DType::kFloat32), {context, vocabulary_});
}

PlannedStep TextSampler::Step() const {
  return {.name = "sample", .feeds = {{tokens_, tokens_.shape()}}, .fetches = {logits_}, .targets = {}};
}

absl::StatusOr<std::vector<int32_t>> TextSampler::Sample(Session& session, std::vector<int32_t> prompt,
                                                         const SampleOptions& options) const {
  if (options.count < 0 || !(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot sample ", options.count, " tokens at temperature ",
                                                   options.temperature, "; both must be at least 0"));
  }
  for (const int32_t token : prompt) {
    if (0 <= token && token < vocabulary_) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has token ", token, "; expected 0 to ", vocabulary_ - 1));
  }
  const PlannedStep step = Step();
  ASSIGN_OR_RETURN(const auto prepared, session.Prepare(step.feeds, step.fetches, step.targets));
  const bool empty = prompt.empty();
  if (empty) prompt.push_back(0);
  PhiloxStream random(RandomKey(options.seed, "sample"), 0);
  std::vector<Tensor> feeds = {Tensor(DType::kInt32, {1, context_})};
  for (int64_t i = 0; i < options.count; ++i) {
    // Positions behind the last token are not looked at, so anything may stand there.
    const auto size = static_cast<int64_t>(prompt.size()), used = std::min(size, context_);
    int32_t* const tokens = feeds[0].data<int32_t>();
    std::fill_n(std::copy(prompt.end() - used, prompt.end(), tokens), context_ - used, 0);
    RETURN_IF_ERROR(prepared->Run(feeds));
    RETURN_IF_ERROR(prepared->Wait());
    const float* const last = prepared->fetched(0).data<float>() + (used - 1) * vocabulary_;
    const uint32_t high = random.Next();
    const int32_t next =
        Draw({last, static_cast<size_t>(vocabulary_)}, options.temperature, UniformDouble(high, random.Next()));
    if (next < 0) return absl::AbortedError(absl::StrCat("a logit of token ", size, " of the sample is NaN"));
    prompt.push_back(next);
  }
  if (empty) prompt.erase(prompt.begin());
  return prompt;
}

}  // namespace belfry::trainers
