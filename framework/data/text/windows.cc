#include "framework/data/text/windows.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/base/units.h"

namespace belfry::data {
namespace {

class Windows : public Dataset {
 public:
  Windows(std::shared_ptr<const TokenStream> stream, int64_t begin, int64_t size, int64_t window)
      : stream_(std::move(stream)), begin_(begin), size_(size), window_(window) {
    fields_ = TokenFields(window, stream_->vocabulary());
  }

  int64_t size() const override { return size_; }
  absl::Span<const Field> fields() const override { return fields_; }

  absl::Status Read(int64_t index, const Example& example) const override {
    BELFRY_CHECK(0 <= index && index < size_);
    auto* const tokens = example.field<int32_t>(0);
    auto* const targets = example.field<int32_t>(1);
    const int64_t first = begin_ + index * window_;
    RETURN_IF_ERROR(stream_->Read(first + 1, absl::MakeSpan(targets, static_cast<size_t>(window_))));
    RETURN_IF_ERROR(stream_->Read(first, absl::MakeSpan(tokens, 1)));
    std::memcpy(tokens + 1, targets, static_cast<size_t>(window_ - 1) * sizeof(int32_t));
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const TokenStream> stream_;
  const int64_t begin_, size_, window_;
  std::vector<Field> fields_;
};

}  // namespace

std::vector<Field> TokenFields(int64_t window, int64_t vocabulary) {
  return {{"tokens", DType::kInt32, {window}, vocabulary}, {"targets", DType::kInt32, {window}, vocabulary}};
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenWindows(std::shared_ptr<const TokenStream> stream, int64_t begin,
                                                     int64_t end, int64_t window) {
  BELFRY_CHECK(0 <= begin && begin <= end && end <= stream->size());
  if (window < 1) return absl::InvalidArgumentError(absl::StrCat("window is ", window, "; expected at least 1"));
  const int64_t windows = (end - begin - 1) / window;
  if (end == begin || windows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(Counted(end - begin, "token"),
                                                   "; a window and the token after it are ", window,
                                                   " + 1; take a smaller window, or more text"));
  }
  return std::make_unique<Windows>(std::move(stream), begin, windows, window);
}

absl::StatusOr<TextData> SplitIntoWindows(const std::shared_ptr<const TokenStream>& stream, int64_t window,
                                          double validation) {
  if (!(validation >= 0 && validation < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the fraction for validation is ", validation, "; expected at least 0 and less than 1"));
  }
  const int64_t size = stream->size();
  const int64_t cut = size - std::llround(static_cast<double>(size) * validation);
  const auto part = [&](const char* name, int64_t begin, int64_t end) -> absl::StatusOr<std::unique_ptr<Dataset>> {
    auto windows = OpenWindows(stream, begin, end, window);
    if (windows.ok()) return windows;
    return absl::InvalidArgumentError(absl::StrCat("the ", name, " part: ", windows.status().message()));
  };
  TextData data;
  if (validation == 0) {
    ASSIGN_OR_RETURN(data.train, OpenWindows(stream, 0, size, window));
    return data;
  }
  ASSIGN_OR_RETURN(data.train, part("training", 0, cut));
  ASSIGN_OR_RETURN(data.validation, part("validation", cut, size));
  return data;
}

}  // namespace belfry::data
