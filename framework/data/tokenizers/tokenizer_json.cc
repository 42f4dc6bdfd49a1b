#include <array>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/data/tokenizers/bpe_tokenizer_impl.h"
#include "framework/io/utf8.h"

namespace belfry::data {
namespace {

using Json = nlohmann::json;

// A value for an error. Lists and objects may be nested so deeply that their text takes all of the stack.
std::string Shown(const Json& value) { return value.is_structured() ? value.type_name() : value.dump(); }

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::Utf8SafeCHexEscape(text.substr(0, 80)), text.size() > 80 ? "...'" : "'");
}

absl::Status Bad(absl::string_view where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

absl::Status Unknown(absl::string_view where, absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat(where, ": ", what, " is not supported"));
}

// A member of an object; null if it has none, or if it is null.
const Json& Member(const Json& object, const char* name) {
  static const auto* const kNull = new Json;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? *kNull : *found;
}

std::string TypeOf(const Json& object) {
  const Json& type = Member(object, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

absl::StatusOr<bool> Flag(const Json& object, const char* name, bool otherwise, absl::string_view where) {
  const Json& flag = Member(object, name);
  if (flag.is_null()) return otherwise;
  if (!flag.is_boolean()) return Bad(absl::StrCat(where, ".", name), "expected true or false");
  return flag.get<bool>();
}

// The characters by which GPT-2's vocabulary writes bytes: printable ones of Latin-1 stand for themselves, and those
// from U+0100 on for the others, in order.
const std::map<uint32_t, char>& BytesOfCharacters() {
  static const auto* const kBytes = [] {
    auto* const bytes = new std::map<uint32_t, char>;
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool itself = (0x21 <= byte && byte <= 0x7E) || (0xA1 <= byte && byte <= 0xAC) || 0xAE <= byte;
      bytes->emplace(itself ? byte : next++, static_cast<char>(byte));
    }
    return bytes;
  }();
  return *kBytes;
}

// The bytes that a token of the vocabulary stands for. One with other characters, such as a space, is text.
std::string BytesOf(absl::string_view token) {
  std::string bytes;
  for (absl::string_view left = token; !left.empty();) {
    const auto [code, size] = io::FirstUtf8(left);
    const auto byte = BytesOfCharacters().find(code);
    if (size == 0 || byte == BytesOfCharacters().end()) return std::string(token);
    bytes.push_back(byte->second);
    left.remove_prefix(size);
  }
  return bytes;
}

// Numbers may be left out, up to a gap that needs little memory.
constexpr size_t kMaxGap = 65'536;

absl::StatusOr<int32_t> TokenNumber(const Json& number, size_t count, absl::string_view where) {
  if (!number.is_number_integer()) return Bad(where, "expected the number of a token");
  const size_t limit = count + kMaxGap;
  const bool negative = !number.is_number_unsigned() && number.get<int64_t>() < 0;
  if (negative || number.get<uint64_t>() >= limit) {
    return Bad(where, absl::StrCat("token ", Shown(number), " is not from 0 to ", limit - 1, ", as ", count,
                                   " tokens may be numbered"));
  }
  return static_cast<int32_t>(number.get<int64_t>());
}

using Vocabulary = std::map<std::string, int32_t, std::less<>>;  // as written in the file

// Reads {"token": number, ...}. `others`: tokens that are listed elsewhere.
absl::StatusOr<Vocabulary> ReadVocabulary(const Json& json, size_t others, absl::string_view where, BpeModel& model) {
  if (!json.is_object()) return Bad(where, "expected an object of tokens");
  Vocabulary vocabulary;
  for (const auto& [token, number] : json.items()) {
    const std::string at = absl::StrCat(where, "[", Quoted(token), "]");
    ASSIGN_OR_RETURN(const int32_t id, TokenNumber(number, json.size() + others, at));
    if (token.empty()) return Bad(at, "a token is empty");
    const auto index = static_cast<size_t>(id);
    if (index >= model.tokens.size()) model.tokens.resize(index + 1);
    if (model.tokens[index].has_value()) return Bad(at, absl::StrCat("another token is ", id, ", too"));
    model.tokens[index] = BytesOf(token);
    vocabulary.emplace(token, id);
  }
  return vocabulary;
}

absl::Status AddMerge(const Vocabulary& vocabulary, absl::string_view left, absl::string_view right,
                      absl::string_view where, BpeModel& model) {
  std::array<int32_t, 2> ids = {};
  for (int i = 0; i < 2; ++i) {
    const absl::string_view token = i == 0 ? left : right;
    const auto found = vocabulary.find(token);
    if (found == vocabulary.end()) return Bad(where, absl::StrCat(Quoted(token), " is not in the vocabulary"));
    ids[static_cast<size_t>(i)] = found->second;
  }
  model.merges.push_back({ids[0], ids[1]});
  return absl::OkStatus();
}

// "left right" as a merge.
absl::Status AddMergeLine(const Vocabulary& vocabulary, absl::string_view line, absl::string_view where,
                          BpeModel& model) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
  if (parts.first.empty() || parts.second.empty() || absl::StrContains(parts.second, ' ')) {
    return Bad(where, absl::StrCat("expected two tokens with a space between them, not ", Quoted(line)));
  }
  return AddMerge(vocabulary, parts.first, parts.second, where, model);
}

absl::Status ReadMerges(const Json& json, const Vocabulary& vocabulary, absl::string_view where, BpeModel& model) {
  if (!json.is_array()) return Bad(where, "expected an array of merges");
  for (size_t i = 0; i < json.size(); ++i) {
    const Json& merge = json[i];
    const std::string at = absl::StrCat(where, "[", i, "]");
    if (merge.is_string()) {
      RETURN_IF_ERROR(AddMergeLine(vocabulary, merge.get_ref<const std::string&>(), at, model));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      RETURN_IF_ERROR(AddMerge(vocabulary, merge[0].get_ref<const std::string&>(),
                               merge[1].get_ref<const std::string&>(), at, model));
    } else {
      return Bad(at, "expected \"left right\" or [\"left\", \"right\"]");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadBpe(const Json& json, size_t added, const std::string& where, BpeModel& model) {
  const std::string type = TypeOf(json);
  if (!json.is_object()) return Bad(where, "the file has no model");
  if (!type.empty() && type != "BPE") return Unknown(where, absl::StrCat("a model of type ", Quoted(type)));
  for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& value = Member(json, option);
    const bool empty = value.is_string() && value.get_ref<const std::string&>().empty();
    if (!value.is_null() && !empty) return Unknown(where, absl::StrCat(option, " ", Shown(value)));
  }
  if (const Json& dropout = Member(json, "dropout"); !dropout.is_null() && dropout != 0) {
    return Unknown(where, absl::StrCat("dropout ", Shown(dropout)));
  }
  ASSIGN_OR_RETURN(const bool fallback, Flag(json, "byte_fallback", false, where));
  if (fallback) return Unknown(where, "byte_fallback");
  ASSIGN_OR_RETURN(model.ignore_merges, Flag(json, "ignore_merges", false, where));
  ASSIGN_OR_RETURN(const Vocabulary vocabulary,
                   ReadVocabulary(Member(json, "vocab"), added, absl::StrCat(where, ".vocab"), model));
  return ReadMerges(Member(json, "merges"), vocabulary, absl::StrCat(where, ".merges"), model);
}

absl::Status ReadAdded(const Json& json, size_t count, const std::string& where, BpeModel& model) {
  if (json.is_null()) return absl::OkStatus();
  if (!json.is_array()) return Bad(where, "expected an array of added tokens");
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string at = absl::StrCat(where, "[", i, "]");
    const Json& content = Member(json[i], "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      return Bad(at, "expected an object with \"content\", the token's text");
    }
    AddedToken token{.text = content.get<std::string>()};
    ASSIGN_OR_RETURN(token.token, TokenNumber(Member(json[i], "id"), count, at + ".id"));
    ASSIGN_OR_RETURN(const bool single, Flag(json[i], "single_word", false, at));
    if (single) return Unknown(at, "single_word");
    ASSIGN_OR_RETURN(token.takes_left, Flag(json[i], "lstrip", false, at));
    ASSIGN_OR_RETURN(token.takes_right, Flag(json[i], "rstrip", false, at));
    const auto index = static_cast<size_t>(token.token);
    if (index >= model.tokens.size()) model.tokens.resize(index + 1);
    if (const auto& bytes = model.tokens[index]; bytes.has_value() && *bytes != BytesOf(token.text)) {
      return Bad(at, absl::StrCat("another token is ", token.token, ", too"));
    }
    model.added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

absl::Status ReadPattern(const Json& split, const std::string& where, WordPattern& pattern) {
  const Json& regex = Member(Member(split, "pattern"), "Regex");
  const Json& behavior = Member(split, "behavior");
  ASSIGN_OR_RETURN(const bool invert, Flag(split, "invert", false, where));
  if (!regex.is_string()) return Unknown(where, "a Split that is not by \"Regex\"");
  if (behavior != "Isolated" || invert) return Unknown(where, "a Split that is not \"Isolated\", or inverted");
  const auto& text = regex.get_ref<const std::string&>();
  for (const auto& [known, value] : {std::pair(kGpt2Pattern, WordPattern::kGpt2),
                                     {kLlama3Pattern, WordPattern::kLlama3},
                                     {kQwen2Pattern, WordPattern::kQwen2}}) {
    if (text != known) continue;
    pattern = value;
    return absl::OkStatus();
  }
  return Unknown(where,
                 absl::StrCat("the expression ", Quoted(text), ", which is not that of GPT-2, Llama 3 or Qwen 2,"));
}

// ByteLevel, alone or after a Split.
absl::Status ReadPreTokenizer(const Json& json, const std::string& where, BpeModel& model) {
  const bool sequence = TypeOf(json) == "Sequence";
  const Json& steps = Member(json, "pretokenizers");
  if (sequence && (!steps.is_array() || steps.empty())) return Bad(where, "expected an array \"pretokenizers\"");
  const size_t count = sequence ? steps.size() : 1;
  bool split = false;
  for (size_t i = 0; i < count; ++i) {
    const Json& step = sequence ? steps[i] : json;
    const std::string at = sequence ? absl::StrCat(where, ".pretokenizers[", i, "]") : where;
    const std::string type = TypeOf(step);
    if (step.contains("pattern") && sequence && i == 0) {  // a Split
      RETURN_IF_ERROR(ReadPattern(step, at, model.pattern));
      split = true;
    } else if (type == "ByteLevel" && i + 1 == count) {
      ASSIGN_OR_RETURN(model.add_space, Flag(step, "add_prefix_space", true, at));
      ASSIGN_OR_RETURN(const bool regex, Flag(step, "use_regex", true, at));
      if (split && (regex || model.add_space)) return Unknown(at, "use_regex or add_prefix_space after a Split");
      if (!split) model.pattern = regex ? WordPattern::kGpt2 : WordPattern::kNone;
      return absl::OkStatus();
    } else {
      return Unknown(at,
                     type.empty() ? "a file without a pre_tokenizer" : "the pre-tokenizer " + Quoted(type) + " here");
    }
  }
  return Unknown(where, "a pre-tokenizer without ByteLevel");
}

// Errors of Create, which knows no file, begin with `name`.
absl::StatusOr<std::unique_ptr<const Tokenizer>> Make(BpeModel model, absl::string_view name) {
  auto made = BpeTokenizer::Create(std::move(model));
  return made.ok() ? std::move(made) : Bad(name, made.status().message());
}

absl::StatusOr<Json> ParseObject(absl::string_view text, absl::string_view name) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Bad(name, "is not a JSON object");
  return json;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseTokenizer(absl::string_view json, absl::string_view name) {
  ASSIGN_OR_RETURN(const Json file, ParseObject(json, name));
  const auto at = [&](absl::string_view what) { return absl::StrCat(name, ": ", what); };
  if (const Json& steps = Member(file, "normalizer");
      !steps.is_null() && !(TypeOf(steps) == "Sequence" && Member(steps, "normalizers").empty())) {
    return Unknown(at("normalizer"), absl::StrCat("the normalizer ", Quoted(TypeOf(steps))));
  }
  if (const Json& decoder = Member(file, "decoder"); !decoder.is_null() && TypeOf(decoder) != "ByteLevel") {
    return Unknown(at("decoder"), absl::StrCat("the decoder ", Quoted(TypeOf(decoder))));
  }
  BpeModel model;
  const Json& added = Member(file, "added_tokens");
  RETURN_IF_ERROR(ReadBpe(Member(file, "model"), added.size(), at("model"), model));
  RETURN_IF_ERROR(ReadPreTokenizer(Member(file, "pre_tokenizer"), at("pre_tokenizer"), model));
  const size_t count = Member(Member(file, "model"), "vocab").size() + added.size();
  RETURN_IF_ERROR(ReadAdded(added, count, at("added_tokens"), model));
  return Make(std::move(model), name);
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> ParseVocabularyAndMerges(absl::string_view vocabulary,
                                                                          absl::string_view merges,
                                                                          absl::string_view name) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(vocabulary, name));
  BpeModel model;
  ASSIGN_OR_RETURN(const Vocabulary tokens, ReadVocabulary(json, 0, name, model));
  int number = 0;
  for (absl::string_view line : absl::StrSplit(merges, '\n')) {
    ++number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty() || (number == 1 && absl::StartsWith(line, "#version"))) continue;
    RETURN_IF_ERROR(AddMergeLine(tokens, line, absl::StrCat(name, ": line ", number, " of the merges"), model));
  }
  std::vector<bool> made(model.tokens.size());
  std::map<absl::string_view, size_t> by_bytes;
  for (const auto& [token, id] : tokens) by_bytes.emplace(*model.tokens[static_cast<size_t>(id)], id);
  for (const auto [left, right] : model.merges) {
    const auto of = [&](int32_t token) { return absl::string_view(*model.tokens[static_cast<size_t>(token)]); };
    if (const auto found = by_bytes.find(absl::StrCat(of(left), of(right))); found != by_bytes.end()) {
      made[found->second] = true;
    }
  }
  for (const auto& [token, id] : tokens) {
    const auto index = static_cast<size_t>(id);
    if (made[index] || model.tokens[index]->size() == 1) continue;
    model.added.push_back({.text = token, .token = id});
  }
  return Make(std::move(model), name);
}

}  // namespace belfry::data
