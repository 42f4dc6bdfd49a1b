#include "trainers/datasets/language.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/check.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"

namespace belfry::data {
namespace {

class Generated : public Dataset {
 public:
  Generated(std::shared_ptr<const MarkovSource> source, uint64_t key, int64_t size, int64_t window)
      : source_(std::move(source)), key_(key), size_(size), window_(static_cast<size_t>(window)) {
    fields_ = TokenFields(window, source_->vocabulary());
  }

  int64_t size() const override { return size_; }
  absl::Span<const Field> fields() const override { return fields_; }

  absl::Status Read(int64_t index, const Example& example) const override {
    BELFRY_CHECK(0 <= index && index < size_);
    std::vector<int32_t> text(window_ + 1);
    source_->Write(key_, index, absl::MakeSpan(text));
    std::memcpy(example.raw(0), text.data(), window_ * sizeof(int32_t));
    std::memcpy(example.raw(1), text.data() + 1, window_ * sizeof(int32_t));
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const MarkovSource> source_;
  const uint64_t key_;
  const int64_t size_;
  const size_t window_;
  std::vector<Field> fields_;
};

}  // namespace

absl::StatusOr<Language> GenerateLanguage(const LanguageOptions& options) {
  for (const auto& [name, value] : {std::pair<absl::string_view, int64_t>{"window", options.window},
                                    {"training_windows", options.training_windows},
                                    {"validation_windows", options.validation_windows}}) {
    if (value < 1) return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; expected at least 1"));
  }
  ASSIGN_OR_RETURN(MarkovSource created, MarkovSource::Create(options.source));
  const auto source = std::make_shared<const MarkovSource>(std::move(created));
  const auto windows = [&](absl::string_view set, int64_t size) {
    return std::make_unique<Generated>(source, RandomKey(options.source.seed, set), size, options.window);
  };
  Language language;
  language.data.train = windows("training", options.training_windows);
  language.data.validation = windows("validation", options.validation_windows);
  language.entropy_per_token = source->EntropyPerToken();
  language.loss_floor = source->EntropyPerTarget(options.window + 1);
  return language;
}

}  // namespace belfry::data
