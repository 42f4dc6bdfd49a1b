#include "trainers/loop/run_checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/runtime/saver.h"
#include "trainers/loop/run_directory.h"
#include "trainers/loop/warm_start.h"

namespace belfry::trainers {
namespace {

// In task 0, the parts that each task holds, without their values; nothing in the others.
absl::StatusOr<std::vector<std::vector<SlotPart>>> Agree(World& world, const std::vector<SlotPart>& mine,
                                                         absl::Time deadline) {
  nlohmann::json list = nlohmann::json::array();
  for (const SlotPart& part : mine) {
    list.push_back({part.name, part.begin, part.value.shape().elements(), static_cast<int>(part.value.dtype())});
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, world.AllGather(list.dump(), deadline));
  std::vector<std::vector<SlotPart>> parts;
  if (world.rank() != 0) return parts;
  for (const std::string& text : texts) {
    std::vector<SlotPart>& of_task = parts.emplace_back();
    for (const nlohmann::json& part : nlohmann::json::parse(text)) {
      of_task.push_back(
          {part[0], part[1], Tensor::WithoutData(static_cast<DType>(part[3].get<int>()), {part[2].get<int64_t>()})});
    }
  }
  return parts;
}

// The memory that a tensor shares with its copies.
absl::Span<char> Bytes(Tensor value) { return {static_cast<char*>(value.raw()), value.bytes()}; }

// The elements of `part` in one of `tensors`.
absl::StatusOr<absl::Span<char>> Find(const SlotPart& part, absl::Span<const io::NamedTensor> tensors) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const io::NamedTensor& tensor) { return tensor.name == part.name; });
  if (found == tensors.end() || found->value.dtype() != part.value.dtype() ||
      part.begin + part.value.shape().elements() > found->value.shape().elements()) {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint has no elements [", part.begin, ", ",
                                                   part.begin + part.value.shape().elements(), ") of '", part.name,
                                                   "'"));
  }
  return Bytes(found->value).subspan(static_cast<size_t>(part.begin) * SizeOf(part.value.dtype()), part.value.bytes());
}

// True if a slot of the session is divided among towers.
bool HasSlotParts(const Session& session) {
  const std::vector<Variable> variables = session.graph().variables();
  return std::any_of(variables.begin(), variables.end(), [](const Variable& variable) { return variable.sharded(); });
}

}  // namespace

RunCheckpoints::RunCheckpoints(Session& session, std::vector<const Node*> initializers, TaskSync& tasks,
                               const std::string& directory)
    : session_(session),
      initializers_(std::move(initializers)),
      tasks_(tasks),
      folder_(directory.empty() ? "" : CheckpointFolder(directory)),
      tag_(tasks.world().NewTag()) {}

absl::Status RunCheckpoints::Initialize() { return InitializeOthers(session_, initializers_); }

absl::Status InitializeOthers(Session& session, absl::Span<const Node* const> initializers) {
  ASSIGN_OR_RETURN(const std::vector<Variable> initialized, session.InitializedVariables());
  HashSet<const Node*> done;
  for (const Variable& variable : initialized) done.insert(&variable.initializer());
  std::vector<const Node*> targets;
  for (const Node* const all : initializers) {
    for (const Node* const initializer : all->control_inputs()) {
      if (done.insert(initializer).second) targets.push_back(initializer);
    }
  }
  return targets.empty() ? absl::OkStatus() : session.Run({}, {}, targets).status();
}

absl::Status RunCheckpoints::Restore(const io::Checkpoint& checkpoint) {
  if (tasks_.world().rank() == 0) {
    RETURN_IF_ERROR(belfry::Restore(session_, checkpoint.path, checkpoint.tensors).status());
  } else {
    RETURN_IF_ERROR(Initialize());
  }
  RETURN_IF_ERROR(tasks_.CopyVariables());
  return DealSlotParts(checkpoint.tensors);
}

absl::StatusOr<std::string> RunCheckpoints::WarmStart(const std::string& path) {
  std::string text;
  if (tasks_.world().rank() == 0) {
    ASSIGN_OR_RETURN(text, trainers::WarmStart(session_, path));
  }
  RETURN_IF_ERROR(tasks_.CopyVariables());
  return text;
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
  ASSIGN_OR_RETURN(const std::vector<SlotPart> elsewhere, GatherSlotParts());
  std::string path;
  if (checkpointer_ != nullptr) {
    RETURN_IF_ERROR(checkpointer_->Save(step, metadata(), metric, elsewhere));
    path = absl::StrCat(folder_, "/", io::CheckpointName(step));
    being_written_ = path;
  }
  saved_ = step;
  return path;
}

std::string RunCheckpoints::TakeWritten() {
  if (being_written_.empty() || !checkpointer_->idle()) return "";
  return std::exchange(being_written_, "");
}

absl::StatusOr<std::vector<SlotPart>> RunCheckpoints::GatherSlotParts() {
  if (whole()) return std::vector<SlotPart>();
  World& world = tasks_.world();
  ASSIGN_OR_RETURN(const std::vector<SlotPart> mine, ReadSlotParts(session_));
  ASSIGN_OR_RETURN(std::vector<std::vector<SlotPart>> parts, Agree(world, mine, tasks_.Deadline()));
  Transfers transfers;
  std::vector<SlotPart> gathered;
  if (world.rank() != 0) {
    for (const SlotPart& part : mine) transfers.Send(0, Bytes(part.value));
  } else {
    for (int task = 1; task < world.size(); ++task) {
      for (SlotPart& part : parts[task]) {
        part.value = Tensor(part.value.dtype(), part.value.shape());
        transfers.Receive(task, Bytes(part.value));
        gathered.push_back(std::move(part));
      }
    }
  }
  RETURN_IF_ERROR(world.Exchange(tag_, transfers, tasks_.Deadline(), nullptr));
  return gathered;
}

absl::Status RunCheckpoints::DealSlotParts(absl::Span<const io::NamedTensor> tensors) {
  if (whole()) return absl::OkStatus();
  World& world = tasks_.world();
  std::vector<SlotPart> mine;
  std::vector<Variable> slots;
  for (const Variable& variable : session_.graph().variables()) {
    if (!variable.sharded() || world.rank() == 0) continue;
    slots.push_back(variable);
    mine.push_back({variable.name(), variable.def().slot_of->begin, Tensor(variable.dtype(), variable.shape())});
  }
  ASSIGN_OR_RETURN(const std::vector<std::vector<SlotPart>> parts, Agree(world, mine, tasks_.Deadline()));
  Transfers transfers;
  if (world.rank() != 0) {
    for (const SlotPart& part : mine) transfers.Receive(0, Bytes(part.value));
  } else {
    for (int task = 1; task < world.size(); ++task) {
      for (const SlotPart& part : parts[task]) {
        ASSIGN_OR_RETURN(const absl::Span<char> bytes, Find(part, tensors));
        transfers.Send(task, bytes);
      }
    }
  }
  RETURN_IF_ERROR(world.Exchange(tag_, transfers, tasks_.Deadline(), nullptr));
  std::vector<Tensor> values;
  for (SlotPart& part : mine) values.push_back(std::move(part.value));
  return session_.WriteVariables(slots, values);
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
