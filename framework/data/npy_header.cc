#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/data/npy_header_impl.h"

namespace belfry::data {
namespace {

constexpr uint64_t kMaxText = 1 << 20;  // NumPy's own headers are below 64 KiB but for structures of many members
constexpr size_t kPrefix = 8;           // magic and version
constexpr size_t kAlignment = 64;       // of the elements in files that NumPy writes
constexpr size_t kGrowthDigits = 21;

struct TypeName {
  absl::string_view name;
  DType dtype;
};
constexpr TypeName kTypes[] = {{"f2", DType::kFloat16}, {"f4", DType::kFloat32}, {"f8", DType::kFloat64},
                               {"i4", DType::kInt32},   {"i8", DType::kInt64},   {"u1", DType::kUInt8},
                               {"b1", DType::kBool}};

// Reads the dictionary. Positions in errors are offsets in the file.
class Dictionary {
 public:
  Dictionary(absl::string_view path, absl::string_view text, size_t start) : path_(path), text_(text), start_(start) {}

  absl::Status Parse() {
    if (!Take('{')) return Expected("'{'");
    while (!Take('}')) {
      RETURN_IF_ERROR(ParseEntry());
      if (Take(',')) continue;
      if (!Take('}')) return Expected("',' or '}'");
      break;
    }
    SkipSpace();
    if (at_ < text_.size()) return Expected("the end of the header");
    if (type_ && fortran_order_ && shape_) return absl::OkStatus();
    return Damaged(absl::StrCat("has no '", !type_ ? "descr" : !fortran_order_ ? "fortran_order" : "shape", "'"));
  }

  // After Parse.
  absl::string_view type() const { return *type_; }
  bool fortran_order() const { return *fortran_order_; }
  const std::vector<int64_t>& shape() const { return *shape_; }

 private:
  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(path_, ": the header ", what));
  }
  absl::Status Expected(absl::string_view what) const {
    return Damaged(absl::StrCat("has ", at_ < text_.size() ? "something else" : "its end", " at byte ", start_ + at_,
                                "; expected ", what));
  }

  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::Status ParseEntry() {
    ASSIGN_OR_RETURN(const absl::string_view key, ParseString("a key in quotes"));
    if (!Take(':')) return Expected("':'");
    SkipSpace();
    if (key == "descr" && !type_) return ParseType();
    if (key == "fortran_order" && !fortran_order_) return ParseBool();
    if (key == "shape" && !shape_) return ParseShape();
    return Damaged(absl::StrCat(
        "has another entry than 'descr', 'fortran_order' and 'shape', or one twice, before byte ", start_ + at_));
  }

  absl::StatusOr<absl::string_view> ParseString(absl::string_view what) {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : text_.npos;
    if (end == text_.npos) return Expected(what);
    const absl::string_view text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return text;
  }

  absl::Status ParseType() {
    if (at_ < text_.size() && text_[at_] == '[') {
      return absl::UnimplementedError(
          absl::StrCat(path_, ": the elements are structures; save each of their members as an array of its own"));
    }
    ASSIGN_OR_RETURN(type_, ParseString("a type in quotes"));
    return absl::OkStatus();
  }

  absl::Status ParseBool() {
    for (const bool value : {false, true}) {
      const absl::string_view text = value ? "True" : "False";
      if (!absl::StartsWith(text_.substr(at_), text)) continue;
      at_ += text.size();
      fortran_order_ = value;
      return absl::OkStatus();
    }
    return Expected("True or False");
  }

  absl::Status ParseShape() {
    if (!Take('(')) return Expected("'('");
    shape_.emplace();
    while (!Take(')')) {
      SkipSpace();
      size_t end = at_;
      while (end < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[end]))) ++end;
      int64_t extent;
      if (!absl::SimpleAtoi(text_.substr(at_, end - at_), &extent)) return Expected("an extent");
      shape_->push_back(extent);
      at_ = end;
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a long integer of Python 2
      if (Take(',')) continue;
      if (!Take(')')) return Expected("',' or ')'");
      break;
    }
    return absl::OkStatus();
  }

  const absl::string_view path_, text_;
  const size_t start_;
  size_t at_ = 0;
  std::optional<absl::string_view> type_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<int64_t>> shape_;
};

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Fills type, dtype and element_bytes from NumPy's name, such as "<f4" or "|u1".
absl::Status SetType(absl::string_view path, absl::string_view name, NpyHeader& header) {
  const char order = name.empty() ? '\0' : name[0];
  header.type = std::string(name.substr(std::min<size_t>(1, name.size())));
  const absl::string_view kinds = "biufc";
  uint32_t bytes = 0;
  const bool number = header.type.size() > 1 && kinds.find(header.type[0]) != kinds.npos &&
                      absl::SimpleAtoi(absl::string_view(header.type).substr(1), &bytes) && bytes >= 1 && bytes <= 32;
  if (number && bytes > 1 && order == '>') {
    return absl::UnimplementedError(
        absl::StrCat(path, ": the elements are '", name, "', big-endian; save a.astype(a.dtype.newbyteorder('<'))"));
  }
  if (!number || (order != '<' && bytes > 1) || (order != '|' && order != '<' && order != '>')) {
    return absl::UnimplementedError(absl::StrCat(path, ": the elements are '", name,
                                                 name == "|O" ? "', Python objects" : "'",
                                                 "; expected little-endian numbers"));
  }
  header.element_bytes = bytes;
  for (const TypeName& type : kTypes) {
    if (type.name == header.type) header.dtype = type.dtype;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TextEnd(absl::string_view path, absl::string_view bytes, uint64_t file_size, size_t& start) {
  const auto damaged = [&](const auto&... what) { return absl::DataLossError(absl::StrCat(path, what...)); };
  if (!absl::StartsWith(bytes, kNpyMagic)) return damaged(": not a .npy file: it does not begin with \\x93NUMPY");
  if (bytes.size() < kPrefix) return damaged(": ends at byte ", bytes.size(), ", within the header");
  const int major = static_cast<uint8_t>(bytes[6]), minor = static_cast<uint8_t>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": version ", major, ".", minor, " of the format; expected 1.0, 2.0 or 3.0"));
  }
  start = kPrefix + (major == 1 ? 2 : 4);
  if (bytes.size() < start) return damaged(": ends at byte ", bytes.size(), ", within the header");
  const uint64_t text = LittleEndian(bytes.substr(kPrefix, start - kPrefix));
  if (text > kMaxText) return damaged(": the header has ", text, " bytes; expected at most ", kMaxText);
  if (start + text > file_size) {
    return damaged(": the header has ", text, " bytes, but the file ends at byte ", file_size);
  }
  return start + text;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view path, absl::string_view bytes, uint64_t file_size) {
  NpyHeader header;
  size_t start = 0;
  ASSIGN_OR_RETURN(header.data, TextEnd(path, bytes, file_size, start));
  Dictionary dictionary(path, bytes.substr(start, header.data - start), start);
  RETURN_IF_ERROR(dictionary.Parse());
  RETURN_IF_ERROR(SetType(path, dictionary.type(), header));
  const absl::StatusOr<Shape> shape = Shape::Make(dictionary.shape());
  if (!shape.ok()) return absl::DataLossError(absl::StrCat(path, ": ", shape.status().message()));
  header.shape = *shape;
  if (dictionary.fortran_order() && shape->rank() > 1) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": the array ", shape->ToString(), " is in Fortran order; save numpy.ascontiguousarray(a)"));
  }
  const uint64_t elements = static_cast<uint64_t>(shape->elements()) * header.element_bytes;
  if (file_size - header.data != elements) {
    return absl::DataLossError(absl::StrCat(path, ": holds ", file_size - header.data, " bytes of elements; expected ",
                                            elements, " for '", header.type, "' ", shape->ToString()));
  }
  return header;
}

absl::StatusOr<NpyHeader> ReadNpyHeader(const io::InputFile& file) {
  std::string bytes(std::min<uint64_t>(file.size(), kPrefix + 4), '\0');
  RETURN_IF_ERROR(file.Read(0, bytes.data(), bytes.size()));
  size_t start = 0;
  ASSIGN_OR_RETURN(const uint64_t end, TextEnd(file.path(), bytes, file.size(), start));
  bytes.resize(end);
  RETURN_IF_ERROR(file.Read(0, bytes.data(), bytes.size()));
  return ParseNpyHeader(file.path(), bytes, file.size());
}

absl::Status UnknownNpyType(absl::string_view path, const NpyHeader& header, absl::string_view expected) {
  return absl::UnimplementedError(
      absl::StrCat(path, ": the elements are '", header.type, "'; expected ", expected, " (a.astype)"));
}

absl::StatusOr<std::string> NpyHeaderText(DType dtype, const Shape& shape) {
  const auto* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& name) { return name.dtype == dtype; });
  if (type == std::end(kTypes)) {
    return absl::UnimplementedError(
        absl::StrCat("NumPy has no ", DTypeName(dtype), "; write float32, or a safetensors file"));
  }
  std::string text =
      absl::StrCat("{'descr': '", SizeOf(dtype) == 1 ? "|" : "<", type->name, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(shape.dims(), ", "), shape.rank() == 1 ? ",), }" : "), }");
  // NumPy leaves room for the first extent to grow, in a file that is appended to.
  if (shape.rank() > 0) text.append(kGrowthDigits - absl::StrCat(shape[0]).size(), ' ');
  const size_t start = kPrefix + 2;
  text.append(kAlignment - (start + text.size() + 1) % kAlignment, ' ');
  text.push_back('\n');
  std::string header = absl::StrCat(kNpyMagic, absl::string_view("\x01\x00", 2));
  header.push_back(static_cast<char>(text.size() % 256));
  header.push_back(static_cast<char>(text.size() / 256));
  return absl::StrCat(header, text);
}

}  // namespace belfry::data
