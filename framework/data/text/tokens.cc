#include "framework/data/text/tokens.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "framework/data/npy_header_impl.h"
#include "framework/data/text/text_files_impl.h"

namespace belfry::data {
namespace {

// llm.c's header: 256 int32, of which the first three are used.
constexpr uint64_t kHeaderBytes = 256 * sizeof(int32_t);
struct Format {
  int32_t magic, version;
  int width;
};
constexpr Format kFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr int32_t kEvaluationMagic = 20240522;

const Format* FindFormat(absl::string_view start) {
  int32_t magic = 0;
  if (start.size() < sizeof(magic)) return nullptr;
  std::memcpy(&magic, start.data(), sizeof(magic));
  const auto* const format =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return f.magic == magic; });
  return format == std::end(kFormats) ? nullptr : format;
}

bool IsEvaluation(absl::string_view start) {
  return start.size() >= kHeaderBytes && std::memcmp(start.data(), &kEvaluationMagic, sizeof(kEvaluationMagic)) == 0;
}

absl::StatusOr<TokenLayout> LayoutOfHeader(const io::InputFile& file, absl::string_view start, const Format& format) {
  const auto damaged = [&](const auto&... what) { return absl::DataLossError(absl::StrCat(file.path(), what...)); };
  int32_t words[3] = {};
  if (start.size() < kHeaderBytes) {
    return damaged(": ends at byte ", start.size(), ", within the header of ", kHeaderBytes, " bytes");
  }
  std::memcpy(words, start.data(), sizeof(words));
  const int32_t version = words[1], count = words[2];
  if (version != format.version) {
    return absl::UnimplementedError(absl::StrCat(file.path(), ": version ", version, " of the format with magic ",
                                                 format.magic, "; expected ", format.version));
  }
  if (count < 1) return damaged(": the header says ", count, " tokens; expected at least 1");
  const uint64_t expected = kHeaderBytes + uint64_t{static_cast<uint32_t>(count)} * static_cast<uint64_t>(format.width);
  if (file.size() != expected) {
    return damaged(": holds ", file.size(), " bytes; expected ", expected, " for the ", count,
                   " tokens that the header says");
  }
  return TokenLayout{.offset = kHeaderBytes, .width = format.width, .count = count};
}

absl::StatusOr<TokenLayout> LayoutOfNpy(const io::InputFile& file) {
  ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(file));
  const bool known = header.type == "u1" || header.type == "u2" || header.type == "u4" || header.type == "i4";
  if (!known) return UnknownNpyType(file.path(), header, "uint8, uint16, uint32 or int32");
  if (header.shape.rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": holds an array ", header.shape.ToString(), "; expected a vector of tokens"));
  }
  return TokenLayout{.offset = header.data, .width = static_cast<int>(header.element_bytes), .count = header.shape[0]};
}

// True if 16-bit numbers are likely the halves of 32-bit tokens: every other one is tiny, but the rest are not.
bool LooksLike32Bits(absl::string_view start) {
  constexpr uint16_t kTiny = 16;  // 32-bit tokens below 2^20
  constexpr size_t kEnough = 64;
  std::vector<uint16_t> halves(start.size() / 4 * 2);
  if (halves.size() < kEnough) return false;
  std::memcpy(halves.data(), start.data(), halves.size() * sizeof(uint16_t));
  uint16_t low = 0, high = 0;
  for (size_t i = 0; i < halves.size(); i += 2) {
    low = std::max(low, halves[i]);
    high = std::max(high, halves[i + 1]);
  }
  return high < kTiny && (low >= kTiny || (high == 0 && low > 0));
}

absl::StatusOr<TokenLayout> LayoutOfRaw(const io::InputFile& file, absl::string_view start, int bits) {
  const uint64_t width = static_cast<uint64_t>(bits) / 8;
  if (file.size() % width != 0) {
    return absl::DataLossError(absl::StrCat(file.path(), ": holds ", file.size(), " bytes, no multiple of ", width,
                                            ": it is cut short, or its tokens have not ", bits, " bits"));
  }
  if (bits == 16 && file.size() % 4 == 0 && LooksLike32Bits(start)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": the tokens seem to have 32 bits, as every other one of 16 would be 0 or tiny; ",
                     "say so (TokenOptions::bits)"));
  }
  return TokenLayout{.offset = 0, .width = static_cast<int>(width), .count = static_cast<int64_t>(file.size() / width)};
}

absl::StatusOr<std::string> ReadStart(const io::InputFile& file) {
  constexpr uint64_t kStart = 4096;
  std::string start(std::min(file.size(), kStart), '\0');
  RETURN_IF_ERROR(file.Read(0, start.data(), start.size()));
  return start;
}

absl::StatusOr<TokenLayout> LayoutOfFile(const io::InputFile& file, int bits) {
  ASSIGN_OR_RETURN(const std::string start, ReadStart(file));
  if (start.empty()) return absl::InvalidArgumentError(absl::StrCat(file.path(), ": the file is empty"));
  if (const Format* format = FindFormat(start); format != nullptr) return LayoutOfHeader(file, start, *format);
  if (absl::StartsWith(start, kNpyMagic)) return LayoutOfNpy(file);
  if (IsEvaluation(start)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": holds multiple-choice questions for evaluation (magic ", kEvaluationMagic, "), no text"));
  }
  return LayoutOfRaw(file, start, bits);
}

bool HasTokenName(absl::string_view name) { return absl::EndsWith(name, ".bin") || absl::EndsWith(name, ".npy"); }

}  // namespace

absl::StatusOr<TextData> OpenTokens(const std::string& path, const TokenOptions& options) {
  if (options.bits != 16 && options.bits != 32) {
    return absl::InvalidArgumentError(absl::StrCat("tokens of ", options.bits, " bits; expected 16 or 32"));
  }
  if (options.vocabulary < 0 || options.vocabulary > int64_t{std::numeric_limits<int32_t>::max()} + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocabulary is ", options.vocabulary, "; expected 0, for an unknown one, to 2147483648"));
  }
  ASSIGN_OR_RETURN(const TextFiles files, FindTextFiles(path, HasTokenName));
  const auto layout_of = [&](const io::InputFile& file) { return LayoutOfFile(file, options.bits); };
  return OpenTextFiles(path, files, options.window, options.validation, [&](absl::Span<const std::string> paths) {
    return OpenTokenStream(paths, options.vocabulary, layout_of);
  });
}

absl::StatusOr<bool> HoldsTokens(const std::string& path) {
  const absl::StatusOr<TextFiles> files = FindTextFiles(path, HasTokenName);
  if (absl::IsNotFound(files.status())) return false;
  RETURN_IF_ERROR(files.status());
  if (files->train != std::vector<std::string>{path}) return true;
  ASSIGN_OR_RETURN(const io::InputFile file, io::InputFile::Open(path));
  ASSIGN_OR_RETURN(const std::string start, ReadStart(file));
  return HasTokenName(path) || FindFormat(start) != nullptr || absl::StartsWith(start, kNpyMagic);
}

}  // namespace belfry::data
