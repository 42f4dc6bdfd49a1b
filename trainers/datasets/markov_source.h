// A random source of tokens whose entropy is known.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/philox.h"

namespace belfry::data {

struct MarkovOptions {
  uint64_t seed = 1;
  int64_t vocabulary = 16;  // V, at least 2
  int64_t order = 2;        // k, at least 1: a token depends on the k tokens before it. V^k is at most 65,536.
  int64_t successors = 4;   // a context has 1 to `successors` likely next tokens; at most V and 16
};

// A stationary Markov source of order k over V tokens. Each context of k tokens has n likely next tokens, n uniform in
// {1, ..., successors}, with probabilities in proportion to 1, 1/2, ..., 2^(1 - n), all drawn from the seed; and
// with probability 1/16 the next token is uniform among all V. So every text is possible, and contexts shorter than k
// say little: the defaults have 0.96 nats a token given all that came before, 2.3 given one token, 2.7 given none. The
// tokens depend only on the options, on any machine. Immutable, so any number of threads may use it at once.
class MarkovSource {
 public:
  // InvalidArgument for options out of range.
  static absl::StatusOr<MarkovSource> Create(const MarkovOptions& options);

  int64_t vocabulary() const { return options_.vocabulary; }
  int64_t order() const { return options_.order; }
  // V^k. The number of a context is its tokens as the digits of a number in base V, the latest last.
  int64_t contexts() const { return contexts_; }

  // Of the token `next` after a context. REQUIRES: both are in range.
  double Probability(int64_t context, int32_t next) const;
  // Of each context at any position of the text.
  absl::Span<const double> stationary() const { return stationary_; }

  // Entropy rate in nats: the least mean cross-entropy of a model that predicts a token from all before it.
  double EntropyPerToken() const { return entropy_; }
  // The same over windows of `tokens`, each predicted from those before it in the window; the first one is not
  // predicted, so the mean is over tokens - 1. Above EntropyPerToken, as the first contexts are shorter than k.
  // REQUIRES: tokens >= 2.
  double EntropyPerTarget(int64_t tokens) const;

  // Writes text number `index` of the set `key`: a stretch from anywhere in the source's endless text. Different
  // numbers are independent, and a longer one begins with the shorter.
  void Write(uint64_t key, int64_t index, absl::Span<int32_t> text) const;

 private:
  MarkovSource(const MarkovOptions& options, int64_t contexts);
  void DrawSuccessors();
  void FindStationary();
  absl::Span<const int32_t> Successors(int64_t context) const;
  double EntropyAfter(int64_t context) const;
  // The context after one more token.
  int64_t After(int64_t context, int32_t next) const { return (context * options_.vocabulary + next) % contexts_; }
  int32_t Draw(int64_t context, PhiloxStream& random) const;

  MarkovOptions options_;
  int64_t contexts_ = 1;
  // By context: the number of its likely successors, and these, the likeliest first, in `successors` places.
  std::vector<int32_t> counts_, successors_;
  std::vector<double> stationary_, cumulative_;
  double entropy_ = 0;
};

}  // namespace belfry::data
