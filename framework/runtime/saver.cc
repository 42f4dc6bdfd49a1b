#include "framework/runtime/saver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "framework/io/checksum.h"

namespace belfry {
namespace {

constexpr size_t kMaxNames = 10;

std::string Listed(absl::string_view title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const auto end = names.begin() + std::min(kMaxNames, names.size());
  const std::string more = names.size() > kMaxNames ? absl::StrCat(" and ", names.size() - kMaxNames, " more") : "";
  return absl::StrCat("\n  ", title, ": ", absl::StrJoin(names.begin(), end, ", "), more);
}

// `paths`: scopes, with or without a trailing "/", or whole names.
bool Below(absl::string_view name, const std::vector<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return InScope(name, path); });
}

bool Selected(absl::string_view name, const RestoreOptions& options) {
  return (options.only.empty() || Below(name, options.only)) && !Below(name, options.except);
}

std::string Described(DType dtype, const Shape& shape) { return absl::StrCat(DTypeName(dtype), " ", shape.ToString()); }

// Whether all towers must hold the same value.
bool IsShared(const Variable& variable) {
  const VariableDef* slot_of = variable.def().slot_of;
  return variable.trainable() || (slot_of != nullptr && slot_of->trainable) || IsInteger(variable.dtype());
}

absl::Status Difference(const Variable& a, const Tensor& a_value, const Variable& b, const Tensor& b_value) {
  const auto *a_bytes = static_cast<const char*>(a_value.raw()), *b_bytes = static_cast<const char*>(b_value.raw());
  const char* differs = std::mismatch(a_bytes, a_bytes + a_value.bytes(), b_bytes).first;
  const auto element = static_cast<int64_t>((differs - a_bytes) / SizeOf(a_value.dtype()));
  return absl::DataLossError(absl::StrCat("The towers no longer hold the same model: variable ", a.name(),
                                          " differs between tower ", a.replica(), " and tower ", b.replica(),
                                          ", first at element ", element, ": ", a_value.ToDoubles(element + 1).back(),
                                          " and ", b_value.ToDoubles(element + 1).back()));
}

}  // namespace

absl::Status Snapshot::Take(Session& session) {
  ASSIGN_OR_RETURN(const std::vector<Variable> initialized, session.InitializedVariables());
  std::vector<Variable> chosen;
  absl::flat_hash_map<absl::string_view, size_t> index;
  for (const Variable& variable : initialized) {
    const auto [found, added] = index.try_emplace(variable.name(), chosen.size());
    if (added) {
      chosen.push_back(variable);
    } else if (variable.replica() < chosen[found->second].replica()) {
      chosen[found->second] = variable;
    }
  }
  if (chosen.empty()) {
    return absl::FailedPreconditionError(
        "No variable is initialized, so there is nothing to save; run the initializers first (InitializeVariables)");
  }
  std::vector<Tensor> values(chosen.size());
  for (io::NamedTensor& tensor : tensors_) {
    const auto found = index.find(tensor.name);
    if (found != index.end()) values[found->second] = std::move(tensor.value);
  }
  tensors_.clear();
  RETURN_IF_ERROR(session.ReadVariables(chosen, absl::MakeSpan(values)));
  for (size_t i = 0; i < chosen.size(); ++i) tensors_.push_back({chosen[i].name(), std::move(values[i])});
  return absl::OkStatus();
}

absl::StatusOr<Restored> Restore(Session& session, absl::string_view source, absl::Span<const io::NamedTensor> tensors,
                                 const RestoreOptions& options) {
  absl::flat_hash_map<absl::string_view, const Tensor*> by_name;
  for (const io::NamedTensor& tensor : tensors) {
    if (by_name.emplace(tensor.name, &tensor.value).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(source, ": two tensors are named '", tensor.name, "'"));
  }
  Restored result;
  std::vector<std::string> different;
  std::vector<Variable> variables;
  std::vector<Tensor> values;
  absl::flat_hash_set<absl::string_view> seen;
  const std::vector<Variable> all = session.graph().variables();
  for (const Variable& variable : all) {
    const bool first = seen.insert(variable.name()).second;
    if (!Selected(variable.name(), options)) continue;
    const auto tensor = by_name.find(variable.name());
    if (tensor == by_name.end()) {
      if (first) result.missing.push_back(variable.name());
      continue;
    }
    const Tensor& value = *tensor->second;
    if (value.dtype() != variable.dtype() || value.shape() != variable.shape()) {
      different.push_back(absl::StrCat(variable.name(), " (", Described(value.dtype(), value.shape()),
                                       ", in the graph ", Described(variable.dtype(), variable.shape()), ")"));
      continue;
    }
    if (first) result.restored.push_back(variable.name());
    variables.push_back(variable);
    values.push_back(value);
  }
  different.erase(std::unique(different.begin(), different.end()), different.end());
  for (const io::NamedTensor& tensor : tensors) {
    if (!seen.contains(tensor.name) && Selected(tensor.name, options)) result.extra.push_back(tensor.name);
  }
  const bool fits = different.empty() && (result.missing.empty() || options.allow_missing) &&
                    (result.extra.empty() || options.allow_extra);
  if (!fits || variables.empty()) {
    const std::vector<std::string> none;
    return absl::InvalidArgumentError(
        absl::StrCat(source, " does not match the model, so nothing is restored",
                     fits ? ": it has none of the model's variables" : "",
                     Listed("not in the file", fits || !options.allow_missing ? result.missing : none),
                     Listed("only in the file", fits || !options.allow_extra ? result.extra : none),
                     Listed("with a different shape or type in the file", different),
                     "\nBuild the model that was saved, or restore only a part of it (RestoreOptions)"));
  }
  RETURN_IF_ERROR(session.WriteVariables(variables, values));
  return result;
}

absl::StatusOr<std::vector<std::string>> ChecksumReplica(Session& session, int replica) {
  ASSIGN_OR_RETURN(const std::vector<Variable> initialized, session.InitializedVariables());
  std::vector<std::string> lines;
  for (const Variable& variable : initialized) {
    if (variable.replica() != replica || !IsShared(variable)) continue;
    ASSIGN_OR_RETURN(const Tensor value, session.ReadVariable(variable));
    lines.push_back(absl::StrCat(variable.name(), " ", io::ChecksumText(value.raw(), value.bytes())));
  }
  return lines;
}

absl::Status CheckReplicas(Session& session, int towers, int first) {
  ASSIGN_OR_RETURN(const std::vector<Variable> initialized, session.InitializedVariables());
  std::vector<std::vector<Variable>> groups;
  absl::flat_hash_map<absl::string_view, size_t> index;
  for (const Variable& variable : initialized) {
    if (variable.replica() < first || variable.replica() >= first + towers || !IsShared(variable)) continue;
    const auto [found, added] = index.try_emplace(variable.name(), groups.size());
    if (added) groups.emplace_back();
    groups[found->second].push_back(variable);
  }
  std::vector<Tensor> values;
  for (const std::vector<Variable>& replicas : groups) {
    if (replicas.size() < 2) continue;
    values.resize(replicas.size());
    RETURN_IF_ERROR(session.ReadVariables(replicas, absl::MakeSpan(values)));
    for (size_t i = 1; i < replicas.size(); ++i) {
      const bool same =
          values[i].shape() == values[0].shape() && values[i].dtype() == values[0].dtype() &&
          (values[0].bytes() == 0 || std::memcmp(values[0].raw(), values[i].raw(), values[0].bytes()) == 0);
      if (!same) return Difference(replicas[0], values[0], replicas[i], values[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry
