// Constants of the safetensors format, shared by reading and writing.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "framework/base/dtype.h"

namespace belfry::io {

// An element type of the format, including those that Belfry lacks.
struct ElementType {
  absl::string_view name;
  size_t bits;  // of an element
  std::optional<DType> dtype;
};

inline constexpr ElementType kElementTypes[] = {
    {"F32", 32, DType::kFloat32},   {"F64", 64, DType::kFloat64}, {"F16", 16, DType::kFloat16},
    {"BF16", 16, DType::kBFloat16}, {"I32", 32, DType::kInt32},   {"I64", 64, DType::kInt64},
    {"U8", 8, DType::kUInt8},       {"BOOL", 8, DType::kBool},    {"I8", 8, std::nullopt},
    {"I16", 16, std::nullopt},      {"U16", 16, std::nullopt},    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},      {"F8_E4M3", 8, std::nullopt}, {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},   {"C64", 64, std::nullopt},    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},   {"F4", 4, std::nullopt},
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
