// The files behind a path, as one stream of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/data/text/windows.h"
#include "framework/io/file.h"

namespace belfry::data {

// Where the tokens of a file are.
struct TokenLayout {
  uint64_t offset = 0;  // of the first token
  int width = 1;        // bytes of a token: 1, 2 or 4, little-endian, unsigned
  int64_t count = 0;
};
using LayoutOf = absl::FunctionRef<absl::StatusOr<TokenLayout>(const io::InputFile&)>;

// The files of a folder, in order of their names.
struct TextFiles {
  std::vector<std::string> train;
  std::vector<std::string> validation;  // empty unless the folder is divided
};

// `path` itself if it is not a folder; otherwise the files in it that `chosen` accepts by name, neither hidden ones nor
// those of folders within. If one of their names has the word "train" ("tiny_train.bin"), the folder is divided: such
// files are for training, those with the words "val", "valid" or "validation" are for validation, and others are left
// out. NotFound: there is none.
absl::StatusOr<TextFiles> FindTextFiles(const std::string& path, absl::FunctionRef<bool(absl::string_view)> chosen);

// The tokens of several files, one after the other, read when they are asked for. `vocabulary` 0: unknown.
absl::StatusOr<std::shared_ptr<const TokenStream>> OpenTokenStream(absl::Span<const std::string> paths,
                                                                   int64_t vocabulary, LayoutOf layout_of);

// The windows of those files, of which `open` makes a stream; the training files give both parts if there are none for
// validation. Errors of windows begin with `path`.
using OpenStream =
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<const TokenStream>>(absl::Span<const std::string> paths)>;
absl::StatusOr<TextData> OpenTextFiles(const std::string& path, const TextFiles& files, int64_t window,
                                       double validation, OpenStream open);

}  // namespace belfry::data
