// The header of a .npy file:
//
//   6 bytes   "\x93NUMPY"
//   2 bytes   the format's version, major and minor
//   n         the length of the text, little-endian, in 2 bytes (version 1) or 4 (2 and 3)
//   n bytes   a dictionary in Python: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, then spaces and a
//             line end
//   the rest  the elements
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/io/file.h"

namespace belfry::data {

inline constexpr absl::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  std::string type;            // NumPy's name without the byte order: "f4", "u2"
  std::optional<DType> dtype;  // nullopt if Belfry has no such type
  size_t element_bytes = 0;
  Shape shape;
  uint64_t data = 0;  // offset of the elements in the file
};

// Parses the first bytes of a file of `file_size` bytes; `path` is used in errors only. The elements are little-endian,
// in C order, and fill the rest of the file. Errors: those of ReadNpy. Safe for arbitrary bytes.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view path, absl::string_view bytes, uint64_t file_size);

// The header of `file`, which begins with kNpyMagic or is refused.
absl::StatusOr<NpyHeader> ReadNpyHeader(const io::InputFile& file);

// The error for a type that Belfry has not: "x.npy: the elements are 'u2'; expected ...".
absl::Status UnknownNpyType(absl::string_view path, const NpyHeader& header, absl::string_view expected);

// The header that numpy.save writes. Unimplemented for bfloat16.
absl::StatusOr<std::string> NpyHeaderText(DType dtype, const Shape& shape);

}  // namespace belfry::data
