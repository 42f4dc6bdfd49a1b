#include "trainers/loop/run_checkpoints.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/runtime/saver.h"
#include "trainers/loop/slot_parts.h"

namespace belfry::trainers {

std::string CheckpointFolder(const std::string& directory) {
  return (std::filesystem::path(directory) / "checkpoints").string();
}

RunCheckpoints::RunCheckpoints(Session& session, const models::TrainStep& step, TaskSync& tasks,
                               const std::string& directory)
    : session_(session),
      step_(step),
      tasks_(tasks),
      folder_(directory.empty() ? "" : CheckpointFolder(directory)),
      tag_(tasks.world().NewTag()) {}

absl::Status RunCheckpoints::Initialize() {
  ASSIGN_OR_RETURN(const std::vector<Variable> initialized, session_.InitializedVariables());
  HashSet<const Node*> done;
  for (const Variable& variable : initialized) done.insert(&variable.initializer());
  std::vector<const Node*> targets;
  for (const Node* initializer : step_.initialize->control_inputs()) {
    if (!done.contains(initializer)) targets.push_back(initializer);
  }
  return targets.empty() ? absl::OkStatus() : session_.Run({}, {}, targets).status();
}

absl::Status RunCheckpoints::Restore(const io::Checkpoint& checkpoint) {
  if (tasks_.world().rank() == 0) {
    RETURN_IF_ERROR(belfry::Restore(session_, checkpoint.path, checkpoint.tensors).status());
  } else {
    RETURN_IF_ERROR(Initialize());
  }
  if (tasks_.world().size() == 1) return absl::OkStatus();
  RETURN_IF_ERROR(tasks_.CopyVariables());
  return DealSlotParts(tasks_.world(), tag_, session_, checkpoint.tensors, tasks_.Deadline());
}

absl::StatusOr<std::string> RunCheckpoints::RestoreBest() {
  io::Checkpoint best;
  if (tasks_.world().rank() == 0) {
    ASSIGN_OR_RETURN(best, io::LoadBestCheckpoint(folder_));
  }
  RETURN_IF_ERROR(Restore(best));
  return best.path;
}

absl::Status RunCheckpoints::Open(bool resumes, int64_t steps, int keep) {
  // Tasks other than 0 need no folder, but may have to hand over their parts of slots.
  ASSIGN_OR_RETURN(const std::string saves,
                   tasks_.world().Broadcast(folder_.empty() ? "" : "saves", tasks_.Deadline()));
  saves_ = !saves.empty();
  if (resumes) saved_ = steps;
  if (tasks_.world().rank() != 0 || folder_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(io::CheckpointDirectory folder, io::CheckpointDirectory::Open(folder_, {.keep_latest = keep}));
  ASSIGN_OR_RETURN(const std::vector<io::CheckpointFile> there, io::ListCheckpoints(folder_));
  if (!resumes && !there.empty() && there.back().step > steps) {
    return absl::FailedPreconditionError(
        absl::StrCat(there.back().path, " belongs to another run, which this one, starting at step ", steps,
                     ", would overwrite; resume it (TrainerOptions::resume) or use another directory"));
  }
  ASSIGN_OR_RETURN(checkpointer_, Checkpointer::Create(session_, std::move(folder)));
  return absl::OkStatus();
}

absl::StatusOr<std::string> RunCheckpoints::Save(int64_t step, absl::FunctionRef<io::Metadata()> metadata,
                                                 const std::optional<io::Metric>& metric) {
  ASSIGN_OR_RETURN(const std::vector<SlotPart> elsewhere,
                   GatherSlotParts(tasks_.world(), tag_, session_, tasks_.Deadline()));
  std::string path;
  if (checkpointer_ != nullptr) {
    RETURN_IF_ERROR(checkpointer_->Save(step, metadata(), metric, elsewhere));
    path = absl::StrCat(folder_, "/", io::CheckpointName(step));
  }
  saved_ = step;
  return path;
}

bool RunCheckpoints::whole() const { return tasks_.world().size() == 1 || !HasSlotParts(session_); }

// On a line of its own if the error has several.
absl::Status RunCheckpoints::WithLastCheckpoint(const absl::Status& status) {
  if (checkpointer_ == nullptr) return status;
  const absl::Status written = checkpointer_->Finish();
  std::string text(absl::StripTrailingAsciiWhitespace(status.message()));
  const absl::string_view separator = absl::StrContains(text, '\n') ? "\n" : "; ";
  if (!written.ok()) absl::StrAppend(&text, separator, "saving a checkpoint failed: ", written.message());
  const absl::StatusOr<io::Checkpoint> good = io::LoadLatestCheckpoint(folder_);
  absl::StrAppend(&text, separator,
                  good.ok() ? absl::StrCat("the last good checkpoint is ", good->path)
                            : absl::StrCat("there is no checkpoint in ", folder_));
  return absl::Status(status.code(), text);
}

}  // namespace belfry::trainers
