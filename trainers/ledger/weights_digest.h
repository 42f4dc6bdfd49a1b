// Digests of variables' values.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/io/safetensors.h"

namespace belfry::trainers {

// A line for each tensor, by its name: type, shape and checksum (io::ChecksumText), as in "F32 [5,5,3,64] 91ab...".
using TensorLines = std::map<std::string, std::string>;

// The lines of a snapshot, and of a file as its header states them, are the same for the same values. Tensors of a file
// without checksums have none.
TensorLines LinesOf(absl::Span<const io::NamedTensor> tensors);
TensorLines LinesOf(absl::Span<const io::TensorInfo> tensors);

// The digest of all of them (io::DigestText).
std::string WeightsDigest(const TensorLines& lines);

// The digest of a safetensors file's length and header, which state its tensors' checksums. Errors: those of reading;
// DataLoss: the file ends before its header does.
absl::StatusOr<std::string> HeaderDigest(const std::string& path);

}  // namespace belfry::trainers
