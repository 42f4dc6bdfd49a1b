// The variables of a session as tensors: taken out, put back, and compared between towers.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/session.h"

namespace belfry {

// A copy in host memory of all variables that are initialized, by logical name: weights, optimizers' slots, moving
// averages, the global step. Of the replicas of a name the lowest is taken, so it does not matter to who restores it
// how many towers there were; CheckReplicas says whether they agree. Not thread-safe.
class Snapshot {
 public:
  // Copies the variables as they are between two steps, which other threads may go on running. The memory is used
  // again: the first call allocates, a later one only for variables that are new. So nobody may read the former
  // tensors() any more. FailedPrecondition: none is initialized.
  absl::Status Take(Session& session);

  // In the order of the variables' making.
  absl::Span<const io::NamedTensor> tensors() const { return tensors_; }

 private:
  std::vector<io::NamedTensor> tensors_;
};

// Which variables are restored, and what need not fit. As a default everything must.
struct RestoreOptions {
  // Variables below one of these paths only, by whole components ("tail" is "tail" and "tail/weights", not "tails"),
  // and not below one of those; an empty list says nothing. What is left out is neither missing nor extra.
  std::vector<std::string> only, except;
  bool allow_missing = false;  // variables that no tensor is for keep their values
  bool allow_extra = false;    // tensors that no variable is for are left out
};

// Logical names, in the order of the graph and of the tensors.
struct Restored {
  std::vector<std::string> restored;
  std::vector<std::string> missing;  // of tensors
  std::vector<std::string> extra;    // tensors
};

// Gives the variables of the session the values of the tensors of their names; all replicas alike, initialized or not.
// All or nothing: unless everything fits, nothing is written. InvalidArgument lists what is missing, what is extra and
// what has another shape or dtype, up to 10 of each; also if nothing at all would be restored. `source` names where
// the tensors come from, for errors.
absl::StatusOr<Restored> Restore(Session& session, absl::string_view source, absl::Span<const io::NamedTensor> tensors,
                                 const RestoreOptions& options = {});

// Whether the towers still are one model: compares the bits of each variable in replicas 0 to towers - 1. Compared are
// trainable variables, their slots, and integers (the global step), if initialized; not the statistics of batch
// normalisation, which one tower alone may keep, nor what only one of these replicas has. DataLoss names the first
// variable that differs, and the towers. Training without averages (VariableUpdate::kIndependent) makes them differ, so
// that a Snapshot of it is that of one tower. Each variable is copied out between two steps.
absl::Status CheckReplicas(Session& session, int towers);

}  // namespace belfry
