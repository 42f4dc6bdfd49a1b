#include "models/weights/foreign_weights.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "framework/compiler/eager.h"
#include "framework/io/file.h"
#include "framework/io/json_impl.h"
#include "ops/builtin_ops.h"

namespace belfry::models {
namespace {

// The numbers in `name` where `pattern` has #; nullopt if it does not match.
std::optional<std::vector<int>> Match(absl::string_view pattern, absl::string_view name) {
  std::vector<int> numbers;
  size_t at = 0;
  for (const char c : pattern) {
    if (c != '#') {
      if (at == name.size() || name[at++] != c) return std::nullopt;
      continue;
    }
    const size_t begin = at;
    while (at < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[at]))) ++at;
    constexpr size_t kMostDigits = 6;
    int number;
    if (at - begin > kMostDigits || !absl::SimpleAtoi(name.substr(begin, at - begin), &number)) return std::nullopt;
    numbers.push_back(number);
  }
  if (at != name.size()) return std::nullopt;
  return numbers;
}

// `text` with {0}, {1+1} and so on replaced.
std::string Insert(absl::string_view text, const std::vector<int>& numbers) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{') {
      result += text[at];
      continue;
    }
    const int number = numbers[text[at + 1] - '0'];
    const bool next = text[at + 2] == '+';
    absl::StrAppend(&result, next ? number + (text[at + 3] - '0') : number);
    at += next ? 4 : 2;
  }
  return result;
}

// The axes of a tensor of ours in that of theirs; empty: the same.
std::vector<int64_t> AxesOf(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::kSame: return {};
    case WeightLayout::kOutIn: return {1, 0};
    case WeightLayout::kFilter: return {2, 3, 1, 0};
  }
  return {};
}

absl::StatusOr<Tensor> InOurLayout(const io::NamedTensor& tensor, WeightLayout layout) {
  const std::vector<int64_t> axes = AxesOf(layout);
  if (axes.empty()) return tensor.value;
  if (tensor.value.shape().rank() == static_cast<int>(axes.size())) {
    ASSIGN_OR_RETURN(
        const std::vector<Tensor> transposed,
        RunOp(*BuiltinOps().Find("Transpose"), {{"T", tensor.value.dtype()}, {"perm", axes}}, {tensor.value}));
    return transposed[0];
  }
  return absl::InvalidArgumentError(absl::StrCat("'", tensor.name, "' has shape ", tensor.value.shape().ToString(),
                                                 "; expected ", axes.size(), " dimensions"));
}

// The parts of a tensor of ours that were found, in order.
using Parts = std::vector<std::optional<Tensor>>;

absl::StatusOr<Tensor> JoinAll(absl::string_view name, const Parts& parts) {
  std::vector<Tensor> found;
  for (const std::optional<Tensor>& part : parts) {
    if (part.has_value()) found.push_back(*part);
  }
  const Tensor& first = found.front();
  bool fits = found.size() == parts.size() && first.shape().rank() > 0;
  for (const Tensor& part : found) fits = fits && part.dtype() == first.dtype() && part.shape() == first.shape();
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' needs ", parts.size(),
                                                   " tensors of one shape and dtype, but ", found.size(),
                                                   " are there, the first ", first.shape().ToString()));
  }
  ASSIGN_OR_RETURN(
      const std::vector<Tensor> joined,
      RunOp(*BuiltinOps().Find("Concat"), {{"T", first.dtype()}, {"axis", int64_t{first.shape().rank() - 1}}}, found));
  return joined[0];
}

// The name of a tensor without what may precede it. PyTorch's wrapper for several GPUs adds "module.".
absl::string_view NameIn(const WeightRules& rules, const io::NamedTensor& tensor) {
  return absl::StripPrefix(absl::StripPrefix(tensor.name, "module."), rules.prefix);
}

const WeightRules* Recognised(const std::vector<io::NamedTensor>& tensors) {
  for (const WeightRules& known : KnownWeights()) {
    for (const io::NamedTensor& tensor : tensors) {
      if (NameIn(known, tensor) == known.has) return &known;
    }
  }
  return nullptr;
}

}  // namespace

absl::Span<const WeightRules> KnownWeights() {
  static const WeightRules kKnown[] = {ResNetWeights(), Gpt2Weights(), BertWeights()};
  return kKnown;
}

absl::StatusOr<std::vector<io::NamedTensor>> OurWeights(std::vector<io::NamedTensor> tensors, std::string& network) {
  network.clear();
  const WeightRules* const known = Recognised(tensors);
  if (known == nullptr) return tensors;
  network = std::string(known->network);
  std::vector<io::NamedTensor> ours;
  std::map<std::string, Parts> joined;
  for (const io::NamedTensor& tensor : tensors) {
    const absl::string_view name = NameIn(*known, tensor);
    for (const WeightRule& rule : known->rules) {
      const std::optional<std::vector<int>> numbers = Match(rule.theirs, name);
      if (!numbers.has_value()) continue;
      ASSIGN_OR_RETURN(Tensor value, InOurLayout(tensor, rule.layout));
      std::string name_of_ours = Insert(rule.ours, *numbers);
      if (rule.parts == 1) {
        ours.push_back({std::move(name_of_ours), std::move(value)});
      } else {
        Parts& parts = joined[std::move(name_of_ours)];
        parts.resize(static_cast<size_t>(rule.parts));
        parts[static_cast<size_t>(rule.part)] = std::move(value);
      }
      break;
    }
  }
  for (const auto& [name, parts] : joined) {
    ASSIGN_OR_RETURN(Tensor value, JoinAll(name, parts));
    ours.push_back({name, std::move(value)});
  }
  return ours;
}

absl::StatusOr<std::vector<io::NamedTensor>> ReadWeightFiles(const std::string& path) {
  if (!absl::EndsWith(path, ".json")) return io::ReadSafetensors(path);
  constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 26;
  ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path, kMaxIndexBytes));
  const nlohmann::json index = io::ParseJson(text);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no index of weights: it has no \"weight_map\""));
  }
  std::map<std::string, std::vector<std::string>> files;  // the tensors of each
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(path, " does not name a file beside it for '", name, "'"));
    }
    files[file.get<std::string>()].push_back(name);
  }
  std::vector<io::NamedTensor> tensors;
  for (const auto& [file, names] : files) {
    const std::string whole = (std::filesystem::path(path).parent_path() / file).string();
    ASSIGN_OR_RETURN(const io::SafetensorsFile opened, io::SafetensorsFile::Open(whole));
    for (const std::string& name : names) {
      const io::TensorInfo* const info = opened.Find(name);
      if (info == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(whole, " has no '", name, "', which ", path, " says it has"));
      }
      ASSIGN_OR_RETURN(Tensor value, opened.Read(*info));
      tensors.push_back({name, std::move(value)});
    }
  }
  return tensors;
}

}  // namespace belfry::models
