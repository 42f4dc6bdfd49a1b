// Snapshots of a session's variables: taking, restoring, and comparing them between towers.
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

// Elements of a slot that is divided among towers (Variable::sharded), in the order of the whole slot's elements.
struct SlotPart {
  std::string name;   // of the slot
  int64_t begin = 0;  // in the whole slot
  Tensor value;       // rank 1
};
// The parts of all initialized sharded slots of the session, in the order of the graph, copied between two steps.
absl::StatusOr<std::vector<SlotPart>> ReadSlotParts(Session& session);

// A copy in host memory of all initialized variables by logical name: weights, optimizer slots, moving averages, the
// global step. It holds the lowest replica of each name, so it can be restored with any number of towers; CheckReplicas
// tells whether the replicas agree. Of a slot that is divided among towers it holds the whole. Not thread-safe.
class Snapshot {
 public:
  // Copies the variables between two steps; other threads may keep running steps. Reuses its memory, so it allocates
  // only for new variables, and invalidates the previous tensors(). `elsewhere` are parts of slots that other processes
  // hold. Errors: FailedPrecondition if no variable is initialized, or if a part of a slot is missing.
  absl::Status Take(Session& session, absl::Span<const SlotPart> elsewhere = {});

  // In order of the variables' creation.
  absl::Span<const io::NamedTensor> tensors() const { return tensors_; }

 private:
  std::vector<io::NamedTensor> tensors_;
  std::vector<Tensor> parts_;  // of this session, as they were read
};

// A path in a file, and its place in the model: {"encoder", "backbone/stem"} takes "encoder/conv1/weights" for
// "backbone/stem/conv1/weights". Paths match whole components. An empty `from` is before every name; an empty `to`
// drops the path.
struct Rename {
  std::string from = {}, to = {};
};

// Selects the variables to restore, and what may be missing. By default everything must match.
struct RestoreOptions {
  // Names of the file are changed first, each by the first of these that fits.
  std::vector<Rename> renames = {};
  // Restore only variables under a path in `only`, and none under a path in `except`. Paths match whole components
  // ("tail" matches "tail" and "tail/weights", not "tails"); an empty list does not restrict. Excluded variables count
  // neither as missing nor as extra.
  std::vector<std::string> only = {}, except = {};
  bool cast = false;           // floating-point tensors are rounded or widened to the type of their variables; an error
                               // if that would make a finite number infinite
  bool allow_missing = false;  // variables without a tensor keep their values; weights, too
  bool allow_extra = false;    // tensors without a variable are ignored
};

// Logical names, in the order of the graph and of the tensors.
struct Restored {
  std::vector<std::string> restored;
  std::vector<std::string> cast;     // the part of them with another type in the file
  std::vector<std::string> missing;  // variables without a tensor
  std::vector<std::string> extra;    // tensors without a variable
};

// Assigns to the session's variables, in all replicas, the tensors of the same names; to parts of slots, their parts.
// All or nothing: unless everything matches, nothing is written. `source` names the origin of the tensors in errors.
// Errors: InvalidArgument, which lists missing names, extra names and mismatches of shape or dtype, up to 10 of each;
// also if nothing would be restored, none of the selected trainable variables, or if a rename fits no tensor.
//
// Weights from elsewhere come without the state of a training: the slots of optimizers, moving averages, and untrained
// scalars such as the global step and the loss scale. Unless the tensors have some of the selected state, it does not
// count as missing, although Restored lists it; it keeps its values, or is still to be initialized.
absl::StatusOr<Restored> Restore(Session& session, absl::string_view source, absl::Span<const io::NamedTensor> tensors,
                                 const RestoreOptions& options = {});

// Checks that the towers are still one model: compares each variable bit by bit in replicas [first, first + towers). It
// compares initialized trainable variables, their slots, and integers (the global step), but not the statistics of
// batch normalisation, which only one tower may keep, nor variables of a single replica. Towers trained without
// averaging (VariableUpdate::kIndependent) differ. Copies each variable between two steps. Errors: DataLoss, with the
// first variable that differs and the towers.
absl::Status CheckReplicas(Session& session, int towers, int first = 0);
// One line for each of these variables of a replica, "conv1/weights 8d1fe37a5f10c3b2" with a checksum of its value, for
// a comparison with other processes.
absl::StatusOr<std::vector<std::string>> ChecksumReplica(Session& session, int replica);

}  // namespace belfry
