// Windows of a stream of tokens, for language models.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/data/dataset.h"

namespace belfry::data {

// A sequence of tokens with random access. Immutable, so any number of threads may read at once.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual int64_t size() const = 0;
  // Every token is in [0, vocabulary()). 0: unknown.
  virtual int64_t vocabulary() const = 0;
  // Writes tokens [begin, begin + to.size()). Errors name the file and the token. REQUIRES: these lie within the
  // stream.
  virtual absl::Status Read(int64_t begin, absl::Span<int32_t> to) const = 0;
};

// The fields of a window: "tokens" int32 [T], and "targets" int32 [T], which are the tokens one further on. Both have
// the vocabulary as `categories`.
std::vector<Field> TokenFields(int64_t window, int64_t vocabulary);

// Tokens [begin, end) of a stream, cut into windows of T. An example has TokenFields: example i has tokens
// [begin + i T, begin + i T + T] between them. The last, incomplete window is left out. InvalidArgument: T below 1, or
// fewer than T + 1 tokens. REQUIRES: 0 <= begin <= end <= stream->size().
absl::StatusOr<std::unique_ptr<Dataset>> OpenWindows(std::shared_ptr<const TokenStream> stream, int64_t begin,
                                                     int64_t end, int64_t window);

// The two parts of a data set for language models.
struct TextData {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  // null if there is none
};

// The windows of a stream, with the last `validation` (a fraction) of its tokens held out of training. InvalidArgument:
// a fraction outside [0, 1), or a part that OpenWindows refuses.
absl::StatusOr<TextData> SplitIntoWindows(const std::shared_ptr<const TokenStream>& stream, int64_t window,
                                          double validation);

}  // namespace belfry::data
