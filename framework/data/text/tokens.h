// Files of token numbers, as C and Python training programs exchange them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/data/text/windows.h"

namespace belfry::data {

struct TokenOptions {
  int64_t window = 256;    // T
  int64_t vocabulary = 0;  // a larger or equal token is an error when it is read; 0: unknown
  // The fraction of the tokens, at the end, that is for validation, unless the folder has files for that.
  double validation = 0.1;
  int bits = 16;  // of a token in files without a header: 16 or 32
};

// Windows (see OpenWindows) of the tokens in a file, or in the files *.bin and *.npy of a folder, which make one stream
// in order of their names, so a window may go on in the next file. A folder with files named as "train.bin" and
// "tiny_val.bin" is divided by these words: "train" is for training, "val", "valid" or "validation" for validation, and
// other files are left out. Files may be larger than memory, and must not be overwritten while they are used. They are:
//
//   llm.c      a header of 256 int32: magic, version, number of tokens; magic 20240520 and version 1: uint16 tokens;
//              20240801 and 7: uint32
//   .npy       a vector of uint8, uint16, uint32 or int32
//   otherwise  nothing but tokens, as nanoGPT's train.bin
//
// All are little-endian. Errors name the file. InvalidArgument: an option, a file without tokens, fewer tokens than a
// window needs, an evaluation file of llm.c, or 32-bit tokens if `bits` is 16. DataLoss: a file that is cut short or
// damaged; when reading, a token outside the vocabulary. Unimplemented: another version or type. NotFound: a folder
// without such a file. Otherwise the errors of io::InputFile.
absl::StatusOr<TextData> OpenTokens(const std::string& path, const TokenOptions& options = {});

// True if `path` is a file that OpenTokens reads by its header or by its name, *.bin or *.npy, or a folder with such
// names. Otherwise it may be text (OpenText). Errors: those of reading the file or the folder.
absl::StatusOr<bool> HoldsTokens(const std::string& path);

}  // namespace belfry::data
