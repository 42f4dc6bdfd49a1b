// Text as bytes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/data/text/windows.h"

namespace belfry::data {

struct TextOptions {
  int64_t window = 256;  // T
  // The fraction of the text, at the end, that is for validation, unless the folder has files for that.
  double validation = 0.1;
};

// Windows (see OpenWindows) of the bytes in a text file, or in all files of a folder, but hidden ones and those of
// folders within; they make one stream in order of their names. A token is a byte: 256 categories. Folders are divided
// as OpenTokens says, and the files may be larger than memory, too. InvalidArgument: an option, or less text than a
// window needs. NotFound: a folder without files. Otherwise the errors of io::InputFile.
absl::StatusOr<TextData> OpenText(const std::string& path, const TextOptions& options = {});

}  // namespace belfry::data
