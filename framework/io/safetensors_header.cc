#include <algorithm>
#include <clocale>
#include <limits>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/io/checksum.h"
#include "framework/io/safetensors.h"
#include "framework/io/safetensors_format_impl.h"

namespace belfry::io {
namespace {

// A zip archive, whose first eight bytes are no length of a header that is allowed.
constexpr absl::string_view kZipBegin("PK\x03\x04", 4);

constexpr size_t kMaxAxes = 64;

std::string Shown(absl::string_view name) {
  constexpr size_t kMax = 200;
  return absl::StrCat("'", absl::Utf8SafeCHexEscape(name.substr(0, kMax)), name.size() > kMax ? "..." : "", "'");
}

// A tensor's entry as the JSON gives it, before any check.
struct Entry {
  std::string name;
  std::optional<std::string> type;
  std::optional<std::vector<uint64_t>> shape, offsets;
};

// Receives the JSON piece by piece, so that duplicate names are noticed (a parsed object would have lost them) and
// nothing unexpected is stored. Each function returns false, with error() set, to stop the parser.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  Metadata metadata;
  const std::string& error() const { return error_; }

  bool start_object(size_t) override {
    if (Skips()) return Deeper();
    if (state_ == State::kBegin) return To(State::kTop);
    if (state_ != State::kTop) return Fail("has an object where none is expected");
    if (key_ == kMetadataKey) return To(State::kMetadata);
    entries.push_back({.name = key_});
    return To(State::kTensor);
  }
  bool key(std::string& name) override {
    if (depth_ > 0) return true;
    key_ = name;
    bool fresh = true;
    if (state_ == State::kTop) fresh = names_.insert(name).second;
    if (state_ == State::kMetadata) fresh = !metadata.contains(name);
    if (fresh) return true;
    return Fail(
        absl::StrCat("has two entries for ", Shown(name), state_ == State::kMetadata ? " in __metadata__" : ""));
  }
  bool end_object() override {
    if (depth_ > 0) return Higher();
    if (state_ == State::kTensor) {
      const Entry& entry = entries.back();
      if (!entry.type || !entry.shape || !entry.offsets) {
        const char* missing = !entry.type ? "dtype" : !entry.shape ? "shape" : "data_offsets";
        return Fail(absl::StrCat("has no ", missing, " for tensor ", Shown(entry.name)));
      }
    }
    return To(state_ == State::kTop ? State::kEnd : State::kTop);
  }
  bool start_array(size_t) override {
    if (Skips()) return Deeper();
    if (state_ != State::kTensor || (key_ != "shape" && key_ != "data_offsets")) return Misplaced("an array");
    std::optional<std::vector<uint64_t>>& list = key_ == "shape" ? entries.back().shape : entries.back().offsets;
    if (list) return Twice();
    list.emplace();
    list_ = &*list;
    return To(State::kList);
  }
  bool end_array() override {
    if (depth_ > 0) return Higher();
    if (key_ == "data_offsets" && list_->size() != 2) {
      return Fail(absl::StrCat("has ", list_->size(), " data_offsets for tensor ", Shown(entries.back().name),
                               "; expected a begin and an end"));
    }
    return To(State::kTensor);
  }
  bool string(std::string& value) override {
    if (Skips()) return true;
    if (state_ == State::kMetadata) {
      metadata.emplace(key_, std::move(value));
      return true;
    }
    if (state_ != State::kTensor || key_ != "dtype") return Misplaced("a string");
    if (entries.back().type) return Twice();
    entries.back().type = std::move(value);
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (Skips()) return true;
    if (state_ != State::kList) return Misplaced("a number");
    if (list_->size() == kMaxAxes) {
      return Fail(
          absl::StrCat("has more than ", kMaxAxes, " numbers in ", key_, " of tensor ", Shown(entries.back().name)));
    }
    list_->push_back(value);
    return true;
  }
  bool number_integer(int64_t value) override {
    if (Skips()) return true;
    return Misplaced(absl::StrCat("the negative number ", value));
  }
  // The library's text of the number has the decimal point of the program's locale.
  bool number_float(double, const std::string& text) override {
    if (Skips()) return true;
    const std::string number = absl::StrReplaceAll(text, {{std::localeconv()->decimal_point, "."}});
    return Misplaced(absl::StrCat("the number ", number.substr(0, 40)));
  }
  bool null() override { return Skips() || (state_ == State::kTop && key_ == kMetadataKey) || Misplaced("null"); }
  bool boolean(bool) override { return Skips() || Misplaced("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { return Misplaced("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return Fail(absl::StrCat("is not valid JSON at byte ", position));
  }

 private:
  enum class State { kBegin, kTop, kMetadata, kTensor, kList, kEnd };

  // True if the value is that of an unknown key of a tensor, or within it. The reference implementation ignores these.
  bool Skips() const {
    const bool known = key_ == "dtype" || key_ == "shape" || key_ == "data_offsets";
    return depth_ > 0 || (state_ == State::kTensor && !known);
  }
  bool Deeper() {
    ++depth_;
    return true;
  }
  bool Higher() {
    --depth_;
    return true;
  }
  bool To(State state) {
    state_ = state;
    return true;
  }
  bool Fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }
  bool Twice() { return Fail(absl::StrCat("has ", key_, " twice for tensor ", Shown(entries.back().name))); }
  bool Misplaced(absl::string_view what) {
    switch (state_) {
      case State::kBegin:
      case State::kEnd: return Fail(absl::StrCat("is ", what, ", not an object of tensors"));
      case State::kTop: return Fail(absl::StrCat("has ", what, " for ", Shown(key_), ", not an object"));
      case State::kMetadata: return Fail(absl::StrCat("has ", what, " for ", Shown(key_), " in __metadata__"));
      case State::kTensor:
      case State::kList: break;
    }
    return Fail(absl::StrCat("has ", what, " for ", Shown(key_), " of tensor ", Shown(entries.back().name)));
  }

  State state_ = State::kBegin;
  int depth_ = 0;                          // of objects and arrays within a value that is skipped
  std::string key_;                        // the last one seen outside of these
  std::vector<uint64_t>* list_ = nullptr;  // the array being read
  HashSet<std::string> names_;             // keys of the outermost object
  std::string error_;
};

absl::StatusOr<TensorInfo> MakeInfo(Entry entry) {
  TensorInfo info{.name = std::move(entry.name), .type = *std::move(entry.type)};
  info.begin = (*entry.offsets)[0];
  info.end = (*entry.offsets)[1];
  const auto* type = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                  [&](const ElementType& known) { return known.name == info.type; });
  if (type == std::end(kElementTypes)) {
    return absl::DataLossError(
        absl::StrCat("has tensor ", Shown(info.name), " with the unknown dtype ", Shown(info.type)));
  }
  info.dtype = type->dtype;
  std::vector<int64_t> dims;
  for (const uint64_t dim : *entry.shape) {
    dims.push_back(static_cast<int64_t>(std::min<uint64_t>(dim, std::numeric_limits<int64_t>::max())));
  }
  absl::StatusOr<Shape> shape = Shape::Make(dims);
  if (!shape.ok()) {
    return absl::DataLossError(absl::StrCat("has tensor ", Shown(info.name), ": ", shape.status().message()));
  }
  info.shape = *std::move(shape);
  const auto elements = static_cast<uint64_t>(info.shape.elements());
  const uint64_t bytes = elements / 8 * type->bits + elements % 8 * type->bits / 8;
  if (elements % 8 * type->bits % 8 != 0) {
    return absl::DataLossError(absl::StrCat("has tensor ", Shown(info.name), ", ", info.type, " ",
                                            info.shape.ToString(), ", whose elements do not fill whole bytes"));
  }
  if (info.end < info.begin || info.end - info.begin != bytes) {
    return absl::DataLossError(absl::StrCat("has tensor ", Shown(info.name), ", ", info.type, " ",
                                            info.shape.ToString(), ", of ", bytes, " bytes at offsets [", info.begin,
                                            ", ", info.end, ")"));
  }
  return info;
}

// Checks that the tensors, in file order, fill everything after the header without gaps or overlaps.
absl::Status CheckOffsets(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  uint64_t end = 0;
  const TensorInfo* last = nullptr;
  for (const TensorInfo& info : tensors) {
    if (info.begin != end) {
      return absl::DataLossError(
          absl::StrCat("has tensor ", Shown(info.name), " at offset ", info.begin, ", but the data before it",
                       last == nullptr ? "" : absl::StrCat(", tensor ", Shown(last->name), ","), " ends at ", end,
                       info.begin < end ? ": they overlap" : ": there is a gap"));
    }
    end = info.end;
    last = &info;
  }
  if (end == data_bytes) return absl::OkStatus();
  const std::string whose = last == nullptr ? "no tensors" : absl::StrCat("tensors up to ", Shown(last->name));
  return absl::DataLossError(absl::StrCat("describes ", whose, ", ", end, " bytes in total, but ", data_bytes,
                                          " bytes follow it: the file ",
                                          end > data_bytes ? "was cut short" : "has extra bytes at its end"));
}

// Returns true if the header carries its own checksum (at the place where files written here have it) and it is right,
// false if it carries none; DataLoss if it is wrong.
absl::StatusOr<bool> CheckOwnChecksum(absl::string_view bytes) {
  const size_t at = kLengthBytes + kHeaderStart.size();
  if (!absl::StartsWith(bytes.substr(kLengthBytes), kHeaderStart)) return false;
  const absl::string_view found = bytes.substr(at, kNoChecksum.size());
  std::string blank(bytes);
  if (found.size() == kNoChecksum.size()) blank.replace(at, kNoChecksum.size(), kNoChecksum.data(), kNoChecksum.size());
  const std::string expected = ChecksumText(blank.data(), blank.size());
  if (found == expected) return true;
  return absl::DataLossError(
      absl::StrCat("does not match its checksum (it says ", Shown(found), ", but the checksum is '", expected, "')"));
}

absl::StatusOr<SafetensorsHeader> Parse(absl::string_view bytes, uint64_t file_size) {
  ASSIGN_OR_RETURN(const bool has_checksum, CheckOwnChecksum(bytes));
  // As the reference implementation, the parser skips blanks before the object, which others write there to align it.
  const absl::string_view json = absl::StripLeadingAsciiWhitespace(bytes.substr(kLengthBytes));
  if (!absl::StartsWith(json, "{")) return absl::DataLossError("does not begin with '{'");
  // The JSON library would take a null byte for the end.
  if (const size_t at = json.find('\0'); at != json.npos) {
    return absl::DataLossError(
        absl::StrCat("is not valid JSON at byte ", bytes.size() - kLengthBytes - json.size() + at + 1));
  }
  Reader reader;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return absl::DataLossError(reader.error());

  SafetensorsHeader header{.metadata = std::move(reader.metadata), .data = bytes.size()};
  Metadata checksums;
  for (auto it = header.metadata.begin(); it != header.metadata.end();) {
    const auto next = std::next(it);
    if (absl::StartsWith(it->first, kChecksumPrefix)) checksums.insert(header.metadata.extract(it));
    it = next;
  }
  if (!checksums.empty() && !has_checksum) {
    return absl::DataLossError(absl::StrCat(
        "has checksums of tensors (", Shown(checksums.begin()->first),
        ") but no checksum of itself: it was damaged, or rewritten by another program, which should drop such keys"));
  }
  if (has_checksum && checksums[std::string(kVersionKey)] != kVersion) {
    return absl::UnimplementedError(absl::StrCat("has checksums of version ",
                                                 Shown(checksums[std::string(kVersionKey)]), ", not ", kVersion,
                                                 "; it was written by another version of Belfry"));
  }
  for (Entry& entry : reader.entries) {
    ASSIGN_OR_RETURN(TensorInfo info, MakeInfo(std::move(entry)));
    if (has_checksum) {
      const auto checksum = checksums.find(absl::StrCat(kTensorChecksumPrefix, info.name));
      if (checksum == checksums.end()) {
        return absl::DataLossError(absl::StrCat("has no checksum of tensor ", Shown(info.name)));
      }
      info.checksum = checksum->second;
    }
    header.tensors.push_back(std::move(info));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  RETURN_IF_ERROR(CheckOffsets(header.tensors, file_size - bytes.size()));
  return header;
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view path, absl::string_view bytes,
                                                         uint64_t file_size) {
  const auto damaged = [&](auto... what) {
    return absl::DataLossError(absl::StrCat(path, ": ", what..., "; it is damaged or not a safetensors file"));
  };
  if (file_size < kLengthBytes || bytes.size() < kLengthBytes) {
    return damaged("has ", file_size, " bytes, but the length of the header alone takes ", kLengthBytes);
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  if (absl::StartsWith(bytes, kZipBegin)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": is a zip archive, such as torch.save writes, and no safetensors file; in Python, "
                     "safetensors.torch.save_file(torch.load(...), ...) makes one of it"));
  }
  if (length > kMaxHeaderBytes) {
    return damaged("claims a header of ", length, " bytes, more than ", kMaxHeaderBytes);
  }
  if (length > file_size - kLengthBytes || length > bytes.size() - kLengthBytes) {
    return damaged("claims a header of ", length, " bytes, but only ", file_size - kLengthBytes, " follow");
  }
  absl::StatusOr<SafetensorsHeader> header = Parse(bytes.substr(0, kLengthBytes + length), file_size);
  if (header.ok()) return header;
  return absl::Status(header.status().code(), absl::StrCat(path, ": its header ", header.status().message(),
                                                           "; use another file, or write this one again"));
}

}  // namespace belfry::io
