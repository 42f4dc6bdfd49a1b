// Tensor files in the safetensors format, which Python's tools read (github.com/huggingface/safetensors):
//
//   8 bytes   n, the length of the header, little-endian
//   n bytes   JSON: {"__metadata__": {string: string}, "<name>": {"dtype": "F32", "shape": [2, 3],
//             "data_offsets": [begin, end]}, ...}, then spaces
//   the rest  the tensors' elements, little-endian, row-major, each at its offsets; nothing between them or after them
//
// Files written here also carry checksums in __metadata__, so that any damage is detected; see docs/checkpoints.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/tensor.h"
#include "framework/io/file.h"

namespace belfry::io {

// A file's __metadata__. Keys that begin with "belfry.xxh3" are reserved for the checksums.
using Metadata = std::map<std::string, std::string>;

struct NamedTensor {
  std::string name;
  Tensor value;
};

// The description and position of a tensor in a file.
struct TensorInfo {
  std::string name;
  std::string type;            // the format's name, such as "F32"
  std::optional<DType> dtype;  // nullopt if Belfry has no such type
  Shape shape;
  uint64_t begin = 0, end = 0;  // in bytes from the end of the header
  std::string checksum;         // ChecksumText of its bytes; empty if the file has none
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in file order
  Metadata metadata;                // without the checksums
  uint64_t data = 0;                // offset in the file of the tensors' bytes
};

// The longest header, in bytes, that is read or written; the reference implementation's limit.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Writes a file atomically, as WriteFile does. Tensors are sorted by descending element size, then by name, so each is
// aligned to its elements, and the same tensors always give the same bytes. InvalidArgument: a name that occurs twice,
// is "__metadata__" or is not UTF-8; a reserved metadata key; a tensor without data.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const NamedTensor> tensors,
                              const Metadata& metadata = {});

// As tolerant as the reference implementation: blanks may precede the header's object, __metadata__ may be null, and
// unknown keys of a tensor are ignored.
//
// Parses the first 8 + n bytes of a file of `file_size` bytes; `path` is used in errors only. Every property of the
// layout is verified, so the result can be read without further checks. DataLoss names the tensor and what is wrong
// with it. Unimplemented: checksums of another version. Safe for arbitrary bytes.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view path, absl::string_view bytes,
                                                         uint64_t file_size);

// A file whose header has been read and verified. Movable; reading is thread-safe.
class SafetensorsFile {
 public:
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  // The same, but tensors that lie at multiples of 64 bytes share the file's memory instead of copying it
  // (InputFile::Map), also with other processes that map it.
  static absl::StatusOr<SafetensorsFile> Map(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  // The tensor of this name; null if there is none.
  const TensorInfo* Find(absl::string_view name) const;

  // Reads one of tensors(). DataLoss: its bytes do not match the file's checksum, or a BOOL is neither 0 nor 1.
  // Unimplemented: an element type that Belfry lacks. ResourceExhausted: out of memory.
  absl::StatusOr<Tensor> Read(const TensorInfo& info) const;
  // Reads all of tensors() whose type Belfry has, in that order; a warning names the others.
  absl::StatusOr<std::vector<NamedTensor>> ReadAll() const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header) : file_(std::move(file)), header_(std::move(header)) {}
  // The bytes of a tensor whose type is known.
  absl::StatusOr<Tensor> Elements(const TensorInfo& info) const;

  InputFile file_;
  SafetensorsHeader header_;
  std::shared_ptr<std::byte> mapped_;  // null if it is not
};

// All tensors of a file, whoever wrote it: a source of weights for Restore. Errors: as for SafetensorsFile.
absl::StatusOr<std::vector<NamedTensor>> ReadSafetensors(const std::string& path);

}  // namespace belfry::io
