#include "trainers/loop/slot_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

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

}  // namespace

bool HasSlotParts(const Session& session) {
  const std::vector<Variable> variables = session.graph().variables();
  return std::any_of(variables.begin(), variables.end(), [](const Variable& variable) { return variable.sharded(); });
}

absl::StatusOr<std::vector<SlotPart>> GatherSlotParts(World& world, int tag, Session& session, absl::Time deadline) {
  if (world.size() == 1 || !HasSlotParts(session)) return std::vector<SlotPart>();
  ASSIGN_OR_RETURN(const std::vector<SlotPart> mine, ReadSlotParts(session));
  ASSIGN_OR_RETURN(std::vector<std::vector<SlotPart>> parts, Agree(world, mine, deadline));
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
  RETURN_IF_ERROR(world.Exchange(tag, transfers, deadline, nullptr));
  return gathered;
}

absl::Status DealSlotParts(World& world, int tag, Session& session, absl::Span<const io::NamedTensor> tensors,
                           absl::Time deadline) {
  if (world.size() == 1 || !HasSlotParts(session)) return absl::OkStatus();
  std::vector<SlotPart> mine;
  std::vector<Variable> slots;
  for (const Variable& variable : session.graph().variables()) {
    if (!variable.sharded() || world.rank() == 0) continue;
    slots.push_back(variable);
    mine.push_back({variable.name(), variable.def().slot_of->begin, Tensor(variable.dtype(), variable.shape())});
  }
  ASSIGN_OR_RETURN(const std::vector<std::vector<SlotPart>> parts, Agree(world, mine, deadline));
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
  RETURN_IF_ERROR(world.Exchange(tag, transfers, deadline, nullptr));
  std::vector<Tensor> values;
  for (SlotPart& part : mine) values.push_back(std::move(part.value));
  return session.WriteVariables(slots, values);
}

}  // namespace belfry::trainers
