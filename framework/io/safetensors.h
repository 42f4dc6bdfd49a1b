// Tensors in files of the safetensors layout, which Python's tools read (github.com/huggingface/safetensors):
//
//   8 bytes   n, the length of the header, little-endian
//   n bytes   JSON: {"__metadata__": {string: string}, "<name>": {"dtype": "F32", "shape": [2, 3],
//             "data_offsets": [begin, end]}, ...}, then spaces
//   the rest  the tensors' elements, little-endian, row-major, each at its offsets; nothing between them or after them
//
// Files written here also carry checksums in __metadata__, so that any damage is found; docs/checkpoints.md says how.
#pragma once

#include <cstdint>
#include <map>
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

// A file's __metadata__. Keys that begin with "belfry.xxh3" are kept for the checksums.
using Metadata = std::map<std::string, std::string>;

struct NamedTensor {
  std::string name;
  Tensor value;
};

// Where a tensor stands in a file.
struct TensorInfo {
  std::string name;
  std::string type;            // the format's name: "F32"
  std::optional<DType> dtype;  // what that is here, if anything
  Shape shape;
  uint64_t begin = 0, end = 0;  // bytes, from the end of the header
  std::string checksum;         // ChecksumText of its bytes; empty if the file says none
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their bytes
  Metadata metadata;                // without the checksums
  uint64_t data = 0;                // where the tensors' bytes begin in the file
};

// The longest header, in bytes, that is read or written: the reference implementation's limit.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Writes a file as WriteFile does. Larger element types come first, then names in order, so every tensor is aligned to
// its elements, and the same tensors always make the same bytes. InvalidArgument: a name that stands twice, is
// "__metadata__" or no UTF-8, a metadata key that is kept for the checksums, a tensor without data.
absl::Status WriteSafetensors(const std::string& path, absl::Span<const NamedTensor> tensors,
                              const Metadata& metadata = {});

// Reads the first 8 + n bytes of a file of `file_size` bytes; `path` is for errors only. Every property of the layout
// is checked, so that whatever it returns can be read without further care. DataLoss says what is wrong with which
// tensor, and whether a file written here was damaged; any bytes are survived.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view path, absl::string_view bytes,
                                                         uint64_t file_size);

// A file whose header was read and checked. Movable; thread-safe to read.
class SafetensorsFile {
 public:
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  // Null if there is none of this name.
  const TensorInfo* Find(absl::string_view name) const;

  // Reads one of tensors(). DataLoss: its bytes do not have the checksum that the file says, or a BOOL is neither 0 nor
  // 1. Unimplemented: an element type that Belfry does not have. ResourceExhausted: no memory.
  absl::StatusOr<Tensor> Read(const TensorInfo& info) const;
  // All of them, in the order of tensors().
  absl::StatusOr<std::vector<NamedTensor>> ReadAll() const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header) : file_(std::move(file)), header_(std::move(header)) {}
  InputFile file_;
  SafetensorsHeader header_;
};

}  // namespace belfry::io
