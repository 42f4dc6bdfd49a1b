// Digests of variables' values.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/io/safetensors.h"

namespace belfry::trainers {

// By name: "F32 [5,5,3,64] 91ab..." with a tensor's type, shape and checksum (io::ChecksumText).
using TensorLines = std::map<std::string, std::string>;

// Those of a snapshot, and of a file as its header states them: the same for the same values. Tensors of a file without
// checksums have none.
TensorLines LinesOf(absl::Span<const io::NamedTensor> tensors);
TensorLines LinesOf(absl::Span<const io::TensorInfo> tensors);

// The digest of all of them (io::DigestText).
std::string WeightsDigest(const TensorLines& lines);

// The digest of a safetensors file's length and header, which state its tensors' checksums. Errors: those of reading;
// DataLoss: the file ends before its header does.
absl::StatusOr<std::string> HeaderDigest(const std::string& path);

}  // namespace belfry::trainers
