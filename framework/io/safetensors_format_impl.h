// Constants of the safetensors format, shared by reading and writing.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "framework/base/dtype.h"

namespace belfry::io {

// An element type of the format, including those that Belfry lacks.
struct ElementType {
  absl::string_view name;
  size_t bytes;
  std::optional<DType> dtype;
};

inline constexpr ElementType kElementTypes[] = {
    {"F32", 4, DType::kFloat32},   {"F64", 8, DType::kFloat64},  {"F16", 2, DType::kFloat16},
    {"BF16", 2, DType::kBFloat16}, {"I32", 4, DType::kInt32},    {"I64", 8, DType::kInt64},
    {"U8", 1, DType::kUInt8},      {"BOOL", 1, DType::kBool},    {"I8", 1, std::nullopt},
    {"I16", 2, std::nullopt},      {"U16", 2, std::nullopt},     {"U32", 4, std::nullopt},
    {"U64", 8, std::nullopt},      {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt},  {"C64", 8, std::nullopt},
};

inline constexpr absl::string_view kMetadataKey = "__metadata__";

// Metadata keys of the checksums: the header's own, the version of these rules, and "belfry.xxh3:<tensor>".
inline constexpr absl::string_view kChecksumPrefix = "belfry.xxh3";
inline constexpr absl::string_view kTensorChecksumPrefix = "belfry.xxh3:";
inline constexpr absl::string_view kVersionKey = "belfry.xxh3.version";
inline constexpr absl::string_view kVersion = "1";

// The beginning of the header of a file with checksums; the 16 digits of the header's checksum follow. That checksum is
// computed over the file's first 8 + n bytes with zeros in place of these digits.
inline constexpr absl::string_view kHeaderStart = R"({"__metadata__":{"belfry.xxh3":")";
inline constexpr absl::string_view kNoChecksum = "0000000000000000";
inline constexpr size_t kLengthBytes = 8;

}  // namespace belfry::io
