#include "framework/runtime/saver.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/half.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/numeric/round_to_odd.h"
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
  if (variable.sharded()) return false;
  return variable.trainable() || (slot_of != nullptr && slot_of->trainable) || IsInteger(variable.dtype());
}

// The shape of a variable in a checkpoint.
const Shape& WholeShape(const Variable& variable) {
  return variable.sharded() ? Variable(variable.def().slot_of).whole().shape() : variable.shape();
}

// A variable's share of its tensor in a checkpoint.
Tensor PartFor(const Variable& variable, const Tensor& whole) {
  if (!variable.sharded()) return whole;
  Tensor part(variable.dtype(), variable.shape());
  const auto offset = static_cast<size_t>(variable.def().slot_of->begin) * SizeOf(variable.dtype());
  if (part.bytes() > 0) std::memcpy(part.raw(), static_cast<const char*>(whole.raw()) + offset, part.bytes());
  return part;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// Calls `function` with a null pointer of the element type. REQUIRES: IsFloat(dtype).
template <class Function>
void VisitFloat(DType dtype, Function function) {
  switch (dtype) {
    case DType::kFloat16: return function(static_cast<Half*>(nullptr));
    case DType::kBFloat16: return function(static_cast<BFloat16*>(nullptr));
    case DType::kFloat64: return function(static_cast<double*>(nullptr));
    default: return function(static_cast<float*>(nullptr));
  }
}

// The tensor in another floating-point type, rounded to nearest. Sets `overflow` to
// the index of a finite number that the type cannot hold, or leaves it as it is.
Tensor Cast(const Tensor& from, DType dtype, std::optional<int64_t>& overflow) {
  Tensor to(dtype, from.shape());
  VisitFloat(from.dtype(), [&](auto* in) {
    VisitFloat(dtype, [&](auto* out) {
      using In = std::remove_pointer_t<decltype(in)>;
      using Out = std::remove_pointer_t<decltype(out)>;
      constexpr bool kBothWide = std::is_arithmetic_v<In> && std::is_arithmetic_v<Out>;
      std::transform(from.data<In>(), from.data<In>() + from.elements(), to.data<Out>(), [](In x) {
        if constexpr (kBothWide) return static_cast<Out>(x);
        if constexpr (std::is_arithmetic_v<In>) return static_cast<Out>(RoundToOdd(x));
        return static_cast<Out>(static_cast<float>(x));
      });
      for (int64_t i = 0; i < from.elements() && !overflow.has_value(); ++i) {
        if (!std::isfinite(static_cast<double>(to.data<Out>()[i])) &&
            std::isfinite(static_cast<double>(from.data<In>()[i]))) {
          overflow = i;
        }
      }
    });
  });
  return to;
}

std::string Renamed(const std::string& name, const Rename& rename) {
  const absl::string_view from = absl::StripSuffix(rename.from, "/"), to = absl::StripSuffix(rename.to, "/");
  const absl::string_view rest = absl::StripPrefix(absl::StripPrefix(name, from), "/");
  return absl::StrCat(to, to.empty() || rest.empty() ? "" : "/", rest);
}

// The names of the tensors in the model.
absl::StatusOr<std::vector<std::string>> NamesInModel(absl::string_view source,
                                                      absl::Span<const io::NamedTensor> tensors,
                                                      const std::vector<Rename>& renames) {
  std::vector<bool> used(renames.size());
  std::vector<std::string> names;
  for (const io::NamedTensor& tensor : tensors) {
    const auto fits = std::find_if(renames.begin(), renames.end(),
                                   [&](const Rename& rename) { return InScope(tensor.name, rename.from); });
    names.push_back(fits == renames.end() ? tensor.name : Renamed(tensor.name, *fits));
    if (fits != renames.end()) used[fits - renames.begin()] = true;
  }
  const auto unused = std::find(used.begin(), used.end(), false) - used.begin();
  if (unused == static_cast<int64_t>(renames.size())) return names;
  std::vector<std::string> there;
  for (const io::NamedTensor& tensor : tensors) there.push_back(tensor.name);
  return absl::InvalidArgumentError(absl::StrCat(source, ": no tensor is left for the rename of '",
                                                 renames[unused].from, "' to '", renames[unused].to, "'",
                                                 Listed("in the file", there)));
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

absl::StatusOr<std::vector<SlotPart>> ReadSlotParts(Session& session) {
  ASSIGN_OR_RETURN(const std::vector<Variable> initialized, session.InitializedVariables());
  std::vector<Variable> slots;
  for (const Variable& variable : initialized) {
    if (variable.sharded()) slots.push_back(variable);
  }
  std::vector<Tensor> values(slots.size());
  RETURN_IF_ERROR(session.ReadVariables(slots, absl::MakeSpan(values)));
  std::vector<SlotPart> parts;
  for (size_t i = 0; i < slots.size(); ++i) {
    parts.push_back({slots[i].name(), slots[i].def().slot_of->begin, std::move(values[i])});
  }
  return parts;
}

namespace {

// A tensor of a snapshot.
struct Entry {
  Variable variable;  // the lowest replica's
  Tensor value;
  std::vector<std::pair<int64_t, int64_t>> parts;  // of a sharded slot: begin and end of those that were found
};

struct Entries {
  std::vector<Entry> list;
  HashMap<absl::string_view, size_t> index;  // by name

  void Add(const Variable& variable) {
    const auto [found, added] = index.try_emplace(variable.name(), list.size());
    if (added) list.push_back({variable});
    if (variable.replica() < list[found->second].variable.replica()) list[found->second].variable = variable;
  }
};

// Copies elements from `begin` on of a sharded slot. False if they do not fit.
bool AddPart(Entries& entries, absl::string_view name, int64_t begin, const Tensor& part) {
  const auto found = entries.index.find(name);
  if (found == entries.index.end()) return false;
  Entry& entry = entries.list[found->second];
  const int64_t size = part.shape().elements();
  if (!entry.variable.sharded() || part.dtype() != entry.value.dtype() || begin < 0 ||
      begin + size > entry.value.shape().elements()) {
    return false;
  }
  entry.parts.emplace_back(begin, begin + size);
  if (part.bytes() == 0) return true;
  std::memcpy(static_cast<char*>(entry.value.raw()) + static_cast<size_t>(begin) * SizeOf(part.dtype()), part.raw(),
              part.bytes());
  return true;
}

absl::Status CheckComplete(Entry& slot) {
  std::sort(slot.parts.begin(), slot.parts.end());
  int64_t end = 0;
  for (const auto& [from, to] : slot.parts) {
    if (from == to) continue;
    if (from != end) break;
    end = to;
  }
  const int64_t size = slot.value.shape().elements();
  if (end == size) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("Elements of '", slot.variable.name(), "' from ", end, " to ", size - 1,
                   " are missing or there twice; the towers of other processes have the rest (ReadSlotParts)"));
}

}  // namespace

absl::Status Snapshot::Take(Session& session, absl::Span<const SlotPart> elsewhere) {
  ASSIGN_OR_RETURN(const std::vector<Variable> initialized, session.InitializedVariables());
  Entries entries;
  std::vector<Variable> read;  // the parts of slots, then the whole variables
  for (const Variable& variable : initialized) {
    entries.Add(variable);
    if (variable.sharded()) read.push_back(variable);
  }
  if (entries.list.empty()) {
    return absl::FailedPreconditionError(
        "No variable is initialized, so there is nothing to save; run the initializers first (InitializeVariables)");
  }
  for (io::NamedTensor& tensor : tensors_) {
    const auto found = entries.index.find(tensor.name);
    if (found != entries.index.end()) entries.list[found->second].value = std::move(tensor.value);
  }
  tensors_.clear();
  const size_t parts = read.size();
  std::vector<Tensor> wholes;
  for (Entry& entry : entries.list) {
    const Variable& variable = entry.variable;
    if (!variable.sharded()) {
      read.push_back(variable);
      wholes.push_back(std::move(entry.value));
    } else if (entry.value.shape() != WholeShape(variable) || entry.value.dtype() != variable.dtype()) {
      entry.value = Tensor(variable.dtype(), WholeShape(variable));
    }
  }
  parts_.resize(parts);
  std::vector<Tensor> results = std::move(parts_);
  results.insert(results.end(), std::make_move_iterator(wholes.begin()), std::make_move_iterator(wholes.end()));
  RETURN_IF_ERROR(session.ReadVariables(read, absl::MakeSpan(results)));
  for (size_t i = 0; i < parts; ++i) AddPart(entries, read[i].name(), read[i].def().slot_of->begin, results[i]);
  for (const SlotPart& part : elsewhere) {
    if (AddPart(entries, part.name, part.begin, part.value)) continue;
    return absl::FailedPreconditionError(absl::StrCat("Another process has elements of '", part.name, "' from ",
                                                      part.begin, " on, which do not fit this one's variables"));
  }
  parts_.assign(std::make_move_iterator(results.begin()), std::make_move_iterator(results.begin() + parts));
  size_t next = parts;
  for (Entry& entry : entries.list) {
    if (!entry.variable.sharded()) {
      entry.value = std::move(results[next++]);
    } else {
      RETURN_IF_ERROR(CheckComplete(entry));
    }
    tensors_.push_back({entry.variable.name(), std::move(entry.value)});
  }
  return absl::OkStatus();
}

namespace {

// True if a variable belongs to a training and not to the model.
bool IsTrainingState(const Variable& variable) {
  return variable.def().slot_of != nullptr || (!variable.trainable() && variable.shape().rank() == 0);
}

using TensorsByName = HashMap<absl::string_view, const Tensor*>;

// The variables of a graph, compared with the tensors of a file.
struct Comparison {
  Restored result;
  std::vector<Variable> variables;  // those that get `values`
  std::vector<Tensor> values;
  std::vector<std::string> lacking;               // of the missing ones, those that the file should have
  std::vector<std::string> different, too_large;  // descriptions
};

// Adds a variable that has a tensor in the file. `first`: of those of its name.
void Compare(const Variable& variable, const Tensor& value, bool first, const RestoreOptions& options, Comparison& to) {
  const bool cast =
      options.cast && value.dtype() != variable.dtype() && IsFloat(value.dtype()) && IsFloat(variable.dtype());
  if ((value.dtype() != variable.dtype() && !cast) || value.shape() != WholeShape(variable)) {
    if (!first) return;
    to.different.push_back(absl::StrCat(variable.name(), " (", Described(value.dtype(), value.shape()),
                                        ", in the graph ", Described(variable.dtype(), WholeShape(variable)), ")"));
    return;
  }
  if (first) to.result.restored.push_back(variable.name());
  if (first && cast) to.result.cast.push_back(variable.name());
  to.variables.push_back(variable);
  std::optional<int64_t> overflow;
  to.values.push_back(PartFor(variable, cast ? Cast(value, variable.dtype(), overflow) : value));
  if (overflow.has_value() && first) {
    to.too_large.push_back(absl::StrCat(variable.name(), " (element ", *overflow, " is ",
                                        value.ToDoubles()[static_cast<size_t>(*overflow)], ", but ",
                                        DTypeName(variable.dtype()), " is too small for it)"));
  }
}

// Compares all variables. `names`: those of the tensors, in the model.
Comparison CompareAll(absl::Span<const Variable> all, const std::vector<std::string>& names,
                      const TensorsByName& by_name, const RestoreOptions& options) {
  const auto in_file = [&](bool state) {
    return std::any_of(all.begin(), all.end(), [&](const Variable& variable) {
      return IsTrainingState(variable) == state && Selected(variable.name(), options) &&
             by_name.contains(variable.name());
    });
  };
  const bool of_training = in_file(true) || (!in_file(false) && !options.allow_missing);
  Comparison comparison;
  HashSet<absl::string_view> seen;
  for (const Variable& variable : all) {
    const bool first = seen.insert(variable.name()).second;
    if (!Selected(variable.name(), options)) continue;
    const auto tensor = by_name.find(variable.name());
    if (tensor != by_name.end()) {
      Compare(variable, *tensor->second, first, options, comparison);
      continue;
    }
    if (first) comparison.result.missing.push_back(variable.name());
    if (first && (of_training || !IsTrainingState(variable))) comparison.lacking.push_back(variable.name());
  }
  for (const std::string& name : names) {
    if (!seen.contains(name) && Selected(name, options)) comparison.result.extra.push_back(name);
  }
  return comparison;
}

// InvalidArgument for a file that does not match the model as far as the options demand.
absl::Status CheckMatch(absl::string_view source, absl::Span<const Variable> all, const Comparison& comparison,
                        const RestoreOptions& options) {
  const Restored& result = comparison.result;
  const std::vector<Variable>& variables = comparison.variables;
  // A warm start that changes no weight trains the model from its initial values, and says nothing.
  const auto is_weight = [&](const Variable& variable) {
    return variable.trainable() && Selected(variable.name(), options);
  };
  const bool no_weight =
      std::any_of(all.begin(), all.end(), is_weight) && std::none_of(variables.begin(), variables.end(), is_weight);
  const bool fits = comparison.different.empty() && (comparison.lacking.empty() || options.allow_missing) &&
                    (result.extra.empty() || options.allow_extra);
  if (!fits || variables.empty() || no_weight) {
    const std::vector<std::string> none;
    return absl::InvalidArgumentError(absl::StrCat(
        source, " does not match the model, so nothing is restored",
        !fits               ? ""
        : variables.empty() ? ": it has none of the model's variables"
                            : ": it has none of the model's weights",
        Listed("not in the file", fits && comparison.lacking.empty() ? result.missing
                                  : fits || !options.allow_missing   ? comparison.lacking
                                                                     : none),
        Listed("only in the file", fits || !options.allow_extra ? result.extra : none),
        Listed("with a different shape or type in the file", comparison.different),
        "\nBuild the model that was saved, restore only a part of it, or rename or cast (RestoreOptions)"));
  }
  if (comparison.too_large.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, " holds numbers that would become infinite, so nothing is restored",
                   Listed("too large", comparison.too_large),
                   "\nRestore into variables of a wider type, or without these tensors (RestoreOptions)"));
}

}  // namespace

absl::StatusOr<Restored> Restore(Session& session, absl::string_view source, absl::Span<const io::NamedTensor> tensors,
                                 const RestoreOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesInModel(source, tensors, options.renames));
  TensorsByName by_name;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (by_name.emplace(names[i], &tensors[i].value).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(source, ": two tensors are named '", names[i], "'",
                                                   names[i] == tensors[i].name ? "" : " after the renames"));
  }
  std::vector<Variable> all = session.graph().variables();
  std::erase_if(all, [](const Variable& variable) { return variable.transient(); });
  Comparison comparison = CompareAll(all, names, by_name, options);
  RETURN_IF_ERROR(CheckMatch(source, all, comparison, options));
  RETURN_IF_ERROR(session.WriteVariables(comparison.variables, comparison.values));
  return std::move(comparison.result);
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
  HashMap<absl::string_view, size_t> index;
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
