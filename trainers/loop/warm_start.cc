#include "trainers/loop/warm_start.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/io/safetensors.h"
#include "framework/io/utf8.h"
#include "framework/runtime/saver.h"
#include "models/weights/foreign_weights.h"
#include "optim/moving_average.h"
#include "trainers/loop/run_directory.h"

namespace belfry::trainers {
namespace {

constexpr size_t kNamesShown = 10;

// Reads `path`, and makes it that of the file. Weights of another project's network become ours, and it is named.
absl::StatusOr<std::vector<io::NamedTensor>> ReadWeights(std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    ASSIGN_OR_RETURN(std::vector<io::NamedTensor> tensors, models::ReadWeightFiles(path));
    std::string network;
    absl::StatusOr<std::vector<io::NamedTensor>> ours = models::OurWeights(std::move(tensors), network);
    if (!ours.ok()) return absl::Status(ours.status().code(), absl::StrCat(path, ": ", ours.status().message()));
    if (!network.empty()) absl::StrAppend(&path, " (", network, ")");
    return ours;
  }
  const std::string inner = CheckpointFolder(path);
  ASSIGN_OR_RETURN(io::Checkpoint latest,
                   io::LoadLatestCheckpoint(std::filesystem::is_directory(inner, error) ? inner : path));
  path = latest.path;
  return std::move(latest.tensors);
}

// True if it is part of a model and not of its training.
bool IsOfModel(const Variable& variable) {
  return variable.def().slot_of == nullptr && !variable.transient() &&
         (variable.trainable() || variable.shape().rank() > 0);
}

// "; not used: 16 tensors, such as a, b, c": those of a model that has other variables. Scalars, and what belongs to
// another tensor ("w/Momentum" to "w"), are of a training.
std::string Unused(const HashMap<std::string, Tensor>& by_name, const HashSet<std::string>& variables) {
  const auto belongs = [&](const std::string& name) {
    for (size_t end = name.rfind('/'); end != name.npos && end > 0; end = name.rfind('/', end - 1)) {
      if (by_name.contains(name.substr(0, end))) return true;
    }
    return false;
  };
  std::vector<std::string> names;
  for (const auto& [name, value] : by_name) {
    if (value.shape().rank() > 0 && !variables.contains(name) && !belongs(name)) names.push_back(name);
  }
  if (names.empty()) return "";
  const std::string count = Counted(static_cast<int64_t>(names.size()), "tensor");
  std::sort(names.begin(), names.end());
  names.resize(std::min<size_t>(names.size(), 3));
  return absl::StrCat("; not used: ", count, ", such as ", absl::StrJoin(names, ", "));
}

}  // namespace

absl::StatusOr<std::string> WarmStart(Session& session, const std::string& path) {
  std::string file = path;
  ASSIGN_OR_RETURN(const std::vector<io::NamedTensor> tensors, ReadWeights(file));
  HashMap<std::string, Tensor> by_name;
  for (const io::NamedTensor& tensor : tensors) by_name[tensor.name] = tensor.value;
  std::vector<io::NamedTensor> taken;
  std::vector<std::string> others;
  HashSet<std::string> seen;
  for (const Variable& variable : session.graph().variables()) {
    if (!IsOfModel(variable) || !seen.insert(variable.name()).second) continue;
    auto found = by_name.find(optim::ExponentialMovingAverage::NameOf(variable.name()));
    if (found == by_name.end()) found = by_name.find(variable.name());
    if (found == by_name.end()) {
      others.push_back(variable.name());
    } else if (found->second.shape() == variable.shape()) {
      taken.push_back({variable.name(), found->second});
    } else {
      others.push_back(absl::StrCat(variable.name(), " ", variable.shape().ToString(), ", there ",
                                    found->second.shape().ToString()));
    }
  }
  ASSIGN_OR_RETURN(const Restored restored,
                   Restore(session, file, taken, {.cast = true, .allow_missing = true, .allow_extra = true}));
  std::string text =
      absl::StrCat("Weights: ", Counted(static_cast<int64_t>(restored.restored.size()), "variable"), " from ", file);
  if (const size_t more = others.size() > kNamesShown ? others.size() - kNamesShown : 0; !others.empty()) {
    others.resize(others.size() - more);
    absl::StrAppend(&text, "; as initialized: ", absl::StrJoin(others, "; "),
                    more == 0 ? "" : absl::StrCat(" and ", more, " more"));
  }
  absl::StrAppend(&text, Unused(by_name, seen));
  std::error_code error;
  const std::filesystem::path configuration = std::filesystem::path(path).replace_filename("config.json");
  if (!std::filesystem::is_directory(path, error) && std::filesystem::exists(configuration, error)) {
    absl::StrAppend(&text, "; ", configuration.string(), " is not read");
  }
  return io::Printable(text);
}

}  // namespace belfry::trainers
