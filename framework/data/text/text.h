// Text as bytes, or as the tokens of a tokenizer.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/data/text/windows.h"
#include "framework/data/tokenizers/tokenizer.h"

namespace belfry::data {

struct TextOptions {
  int64_t window = 256;  // T
  // The fraction of the text, at the end, that is for validation, unless the folder has files for that.
  double validation = 0.1;
};

// Windows (see OpenWindows) of the bytes in a text file, or in all files of a folder, except hidden ones and
// subfolders; they make one stream in order of their names. A token is a byte: 256 categories. Folders are divided
// as OpenTokens says, and the files may be larger than memory. InvalidArgument: an option, or less text than a
// window needs. NotFound: a folder without files. Otherwise the errors of io::InputFile.
absl::StatusOr<TextData> OpenText(const std::string& path, const TextOptions& options = {});

// The same in tokens of `tokenizer`, which is needed during the call only. The files are encoded one by one, in pieces
// of some MB, and the tokens are kept in memory: 2 bytes for each if the vocabulary has up to 65,536, otherwise 4.
// Large texts are better written once as files of tokens (OpenTokens).
absl::StatusOr<TextData> OpenText(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options = {});

// Calls use(tokens) for the tokens of a text file, piece by piece; the same as Encode's, unless a piece of 4 MB
// has no space after a letter. Errors: those of io::InputFile and of `use`.
absl::Status EncodeFile(const std::string& path, const Tokenizer& tokenizer,
                        absl::FunctionRef<absl::Status(absl::Span<const int32_t>)> use);

}  // namespace belfry::data
