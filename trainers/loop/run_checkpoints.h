// The checkpoints of a run, of one task or several: task 0 alone reads and writes files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/io/safetensors.h"
#include "framework/runtime/checkpointer.h"
#include "framework/runtime/saver.h"
#include "framework/runtime/session.h"
#include "trainers/loop/task_sync.h"

namespace belfry::trainers {

// Runs the initializers, TrainStep::initialize of training steps, of variables that have no value yet.
absl::Status InitializeOthers(Session& session, absl::Span<const Node* const> initializers);

// All tasks call its functions at the same point, except Poll, Finish and WithLastCheckpoint. Errors: from reading and
// writing files and variables, and of exchanges between tasks. Not thread-safe.
class RunCheckpoints {
 public:
  // `initializers`: TrainStep::initialize of all training steps. `directory`: of the run, in task 0; empty: none.
  // Borrows the others.
  RunCheckpoints(Session& session, std::vector<const Node*> initializers, TaskSync& tasks,
                 const std::string& directory);

  // Gives variables without a value their initial one. The others were restored, or trained by an earlier run of the
  // session.
  absl::Status Initialize();
  // Gives all variables the values of the checkpoint, of which tasks other than 0 need no tensors.
  absl::Status Restore(const io::Checkpoint& checkpoint);
  // WarmStart in task 0, for all; after Initialize. Returns its text; "" in tasks other than 0.
  absl::StatusOr<std::string> WarmStart(const std::string& path);
  // Restore with the best checkpoint in the folder. Returns its path; "" in tasks other than 0.
  absl::StatusOr<std::string> RestoreBest();

  // Opens the folder for a run that has done `steps`, as the checkpoint has that it `resumes` from, if any, and will
  // keep the latest `keep` checkpoints. FailedPrecondition if another run has saved in it.
  absl::Status Open(bool resumes, int64_t steps, int keep);
  // True if the run saves checkpoints and has not saved this step.
  bool IsMissing(int64_t step) const { return saves_ && saved_ != step; }
  // Lets the step that was resumed from be saved again.
  void Forget() { saved_ = -1; }
  // Begins to save the variables, with the metadata that task 0 asks for. Returns the path of the file; "" in tasks
  // other than 0.
  absl::StatusOr<std::string> Save(int64_t step, absl::FunctionRef<io::Metadata()> metadata,
                                   const std::optional<io::Metric>& metric);
  // True unless parts of the variables are in other tasks, which an error here keeps from handing them over.
  bool whole() const;
  // True while a checkpoint is being written, or TakeWritten has not returned it yet.
  bool writing() const { return !being_written_.empty(); }
  // The path of the last checkpoint once it is written; then "", until the next one is. "" in tasks other than 0.
  std::string TakeWritten();
  // Checkpointer::Poll and Finish.
  absl::Status Poll() { return checkpointer_ == nullptr ? absl::OkStatus() : Noted(checkpointer_->Poll()); }
  absl::Status Finish() { return checkpointer_ == nullptr ? absl::OkStatus() : Noted(checkpointer_->Finish()); }
  // The error with the checkpoint to resume from.
  absl::Status WithLastCheckpoint(const absl::Status& status);

 private:
  // The status of a write. After an error there is no file.
  absl::Status Noted(absl::Status written) {
    if (!written.ok()) being_written_.clear();
    return written;
  }
  // Returns in task 0 the parts of slots that the other tasks hold; in these, nothing. All tasks must call it. Errors:
  // those of World::AllGather and World::Exchange.
  absl::StatusOr<std::vector<SlotPart>> GatherSlotParts();
  // Gives the parts of slots in all tasks but 0 their elements of task 0's `tensors`. All tasks must call it.
  // InvalidArgument if there is no such tensor, or one of another dtype or with fewer elements. Errors: also those of
  // GatherSlotParts.
  absl::Status DealSlotParts(absl::Span<const io::NamedTensor> tensors);

  Session& session_;
  const std::vector<const Node*> initializers_;
  TaskSync& tasks_;
  const std::string folder_;  // empty: none
  std::unique_ptr<Checkpointer> checkpointer_;
  int tag_ = -1;        // of exchanges of slots that are divided among tasks
  bool saves_ = false;  // task 0 has a folder
  int64_t saved_ = -1;  // the step of the last checkpoint
  std::string being_written_ = {};
};

}  // namespace belfry::trainers
