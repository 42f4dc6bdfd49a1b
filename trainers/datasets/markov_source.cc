#include "trainers/datasets/markov_source.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"

namespace belfry::data {
namespace {

constexpr int64_t kMaxContexts = 65'536, kMaxSuccessors = 16;
constexpr uint32_t kNoiseShare = 16;  // one token in so many is drawn from the whole vocabulary
constexpr double kNoise = 1.0 / kNoiseShare;

// The weights of a context's likely successors are 2^15, 2^14, ...
constexpr uint32_t Weight(int64_t rank) { return uint32_t{1} << (kMaxSuccessors - 1 - rank); }
constexpr uint32_t WeightOfFirst(int64_t count) { return (uint32_t{1} << kMaxSuccessors) - Weight(count - 1); }

double Entropy(absl::Span<const double> probabilities) {
  double entropy = 0;
  for (const double p : probabilities) {
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t low, int64_t high) {
  if (low <= value && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; expected ", low, " to ", high));
}

}  // namespace

absl::StatusOr<MarkovSource> MarkovSource::Create(const MarkovOptions& options) {
  RETURN_IF_ERROR(CheckRange("vocabulary", options.vocabulary, 2, kMaxContexts));
  RETURN_IF_ERROR(CheckRange("order", options.order, 1, 16));
  RETURN_IF_ERROR(CheckRange("successors", options.successors, 1, std::min(options.vocabulary, kMaxSuccessors)));
  int64_t contexts = 1;
  for (int64_t i = 0; i < options.order; ++i) {
    contexts *= options.vocabulary;
    if (contexts <= kMaxContexts) continue;
    return absl::InvalidArgumentError(absl::StrCat("order ", options.order, " over ", options.vocabulary,
                                                   " tokens has more than ", kMaxContexts,
                                                   " contexts; take a lower order or a smaller vocabulary"));
  }
  return MarkovSource(options, contexts);
}

MarkovSource::MarkovSource(const MarkovOptions& options, int64_t contexts) : options_(options), contexts_(contexts) {
  DrawSuccessors();
  FindStationary();
  for (int64_t context = 0; context < contexts_; ++context) {
    entropy_ += stationary_[static_cast<size_t>(context)] * EntropyAfter(context);
  }
}

absl::Span<const int32_t> MarkovSource::Successors(int64_t context) const {
  const auto begin = static_cast<size_t>(context * options_.successors);
  return absl::MakeConstSpan(successors_).subspan(begin, static_cast<size_t>(counts_[static_cast<size_t>(context)]));
}

void MarkovSource::DrawSuccessors() {
  counts_.resize(static_cast<size_t>(contexts_));
  successors_.resize(static_cast<size_t>(contexts_ * options_.successors));
  const uint64_t key = RandomKey(options_.seed, "successors");
  for (int64_t context = 0; context < contexts_; ++context) {
    PhiloxStream random(key, static_cast<uint64_t>(context));
    const auto count = 1 + random.NextBelow(static_cast<uint32_t>(options_.successors));
    counts_[static_cast<size_t>(context)] = static_cast<int32_t>(count);
    int32_t* const first = successors_.data() + context * options_.successors;
    for (int32_t* next = first; next < first + count;) {
      *next = static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(options_.vocabulary)));
      if (std::find(first, next, *next) == next) ++next;
    }
  }
}

double MarkovSource::Probability(int64_t context, int32_t next) const {
  const absl::Span<const int32_t> likely = Successors(context);
  const auto rank = std::find(likely.begin(), likely.end(), next) - likely.begin();
  const double noise = kNoise / static_cast<double>(options_.vocabulary);
  const auto count = static_cast<int64_t>(likely.size());
  return rank == count ? noise : noise + (1 - kNoise) * Weight(rank) / WeightOfFirst(count);
}

double MarkovSource::EntropyAfter(int64_t context) const {
  const absl::Span<const int32_t> likely = Successors(context);
  const double unlikely = kNoise / static_cast<double>(options_.vocabulary);
  double entropy = static_cast<double>(options_.vocabulary - static_cast<int64_t>(likely.size())) * Entropy({unlikely});
  for (const int32_t next : likely) entropy += Entropy({Probability(context, next)});
  return entropy;
}

// Power iteration. After a uniform token, which comes with probability kNoise, contexts differ in their last token
// alone; so all contexts with the same latest k - 1 tokens spread their share of noise together.
void MarkovSource::FindStationary() {
  constexpr int kMaxSteps = 10'000;
  constexpr double kEnough = 1e-13;
  const int64_t v = options_.vocabulary, suffixes = contexts_ / v;
  stationary_.assign(static_cast<size_t>(contexts_), 1.0 / static_cast<double>(contexts_));
  std::vector<double> next(stationary_.size()), suffix(static_cast<size_t>(suffixes));
  for (int step = 0; step < kMaxSteps; ++step) {
    std::fill(suffix.begin(), suffix.end(), 0);
    for (int64_t c = 0; c < contexts_; ++c) {
      suffix[static_cast<size_t>(c % suffixes)] += stationary_[static_cast<size_t>(c)];
    }
    for (int64_t c = 0; c < contexts_; ++c) {
      next[static_cast<size_t>(c)] = kNoise / static_cast<double>(v) * suffix[static_cast<size_t>(c / v)];
    }
    for (int64_t c = 0; c < contexts_; ++c) {
      const absl::Span<const int32_t> likely = Successors(c);
      const double share =
          (1 - kNoise) * stationary_[static_cast<size_t>(c)] / WeightOfFirst(static_cast<int64_t>(likely.size()));
      for (size_t rank = 0; rank < likely.size(); ++rank) {
        next[static_cast<size_t>(After(c, likely[rank]))] += share * Weight(static_cast<int64_t>(rank));
      }
    }
    double change = 0;
    for (size_t c = 0; c < next.size(); ++c) change += std::abs(next[c] - stationary_[c]);
    stationary_.swap(next);
    if (change < kEnough) break;
  }
  cumulative_.resize(stationary_.size());
  std::partial_sum(stationary_.begin(), stationary_.end(), cumulative_.begin());
}

double MarkovSource::EntropyPerTarget(int64_t tokens) const {
  BELFRY_CHECK(tokens >= 2);
  // The entropy of j + 1 tokens less that of j is what token j has to say after the j before it.
  double sum = static_cast<double>(std::max<int64_t>(tokens - options_.order, 0)) * entropy_;
  double before = 0;
  for (int64_t j = 0, blocks = options_.vocabulary; j < std::min(options_.order, tokens); ++j) {
    std::vector<double> share(static_cast<size_t>(blocks));
    for (int64_t c = 0; c < contexts_; ++c) {
      share[static_cast<size_t>(c % blocks)] += stationary_[static_cast<size_t>(c)];
    }
    const double block = Entropy(share);
    if (j > 0) sum += block - before;
    before = block;
    blocks *= options_.vocabulary;
  }
  return sum / static_cast<double>(tokens - 1);
}

void MarkovSource::Write(uint64_t key, int64_t index, absl::Span<int32_t> text) const {
  PhiloxStream random(key, static_cast<uint64_t>(index));
  const uint32_t high = random.Next();
  const double at = UniformDouble(high, random.Next()) * cumulative_.back();
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at) - cumulative_.begin();
  int64_t context = std::min<int64_t>(found, contexts_ - 1);
  int64_t place = contexts_;
  for (size_t i = 0; i < text.size(); ++i) {
    if (place > 1) {
      place /= options_.vocabulary;
      text[i] = static_cast<int32_t>(context / place % options_.vocabulary);
      continue;
    }
    text[i] = Draw(context, random);
    context = After(context, text[i]);
  }
}

int32_t MarkovSource::Draw(int64_t context, PhiloxStream& random) const {
  if (random.NextBelow(kNoiseShare) == 0) {
    return static_cast<int32_t>(random.NextBelow(static_cast<uint32_t>(options_.vocabulary)));
  }
  const absl::Span<const int32_t> likely = Successors(context);
  uint32_t at = random.NextBelow(WeightOfFirst(static_cast<int64_t>(likely.size())));
  size_t rank = 0;
  while (at >= Weight(static_cast<int64_t>(rank))) at -= Weight(static_cast<int64_t>(rank++));
  return likely[rank];
}

}  // namespace belfry::data
