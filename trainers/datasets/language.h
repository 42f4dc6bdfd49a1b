// A generated language, for trying language models out without text.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/data/text/windows.h"
#include "trainers/datasets/markov_source.h"

namespace belfry::data {

struct LanguageOptions {
  MarkovOptions source = {};
  int64_t window = 256;  // T
  int64_t training_windows = 20'000, validation_windows = 1000;
};

struct Language {
  // Independent windows of the source's text, with the fields of OpenWindows. Each is generated when it is read.
  TextData data;
  double entropy_per_token = 0;  // in nats: MarkovSource::EntropyPerToken
  // The least cross-entropy, in nats, that a model can have on these windows, whose first tokens have little to be
  // predicted from: MarkovSource::EntropyPerTarget. No model's expected loss is below it.
  double loss_floor = 0;
};

// InvalidArgument for numbers below 1, or options of the source out of range.
absl::StatusOr<Language> GenerateLanguage(const LanguageOptions& options = {});

}  // namespace belfry::data
