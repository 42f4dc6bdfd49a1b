// Runs that are looked at: traced, with a deadline, or in search of a fault.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/finite.h"
#include "framework/base/status.h"
#include "framework/runtime/executable.h"

namespace belfry {
namespace {

bool IsEvent(Instruction::Kind kind) { return kind == Instruction::Kind::kWait || kind == Instruction::Kind::kRecord; }

}  // namespace

void Executable::WatchFromHere() {
  const int64_t now = absl::GetCurrentTimeNanos();
  for (auto& lane : lanes_) {
    lane->position.store(0, std::memory_order_relaxed);
    lane->since.store(now, std::memory_order_relaxed);
  }
}

absl::Status Executable::RunWatched(Lane& lane, size_t position, uint64_t run, absl::Time deadline) {
  BoundInstruction& at = lane.instructions[position];
  const absl::Time now = absl::Now();
  // The op before is the one that took the time.
  if (now >= deadline) return absl::DeadlineExceededError("the step passed its deadline");
  lane.since.store(absl::ToUnixNanos(now), std::memory_order_relaxed);
  lane.position.store(position, std::memory_order_relaxed);
  const auto stamp = static_cast<int>(2 * position);
  if (traced_) RETURN_IF_ERROR(lane.clock->Stamp(*at.stream, stamp));
  RETURN_IF_ERROR(RunInstruction(at, run, deadline));
  if (traced_) RETURN_IF_ERROR(lane.clock->Stamp(*at.stream, stamp + 1));
  if (IsEvent(at.kind)) return absl::OkStatus();
  if (environment_.debug_sync) RETURN_IF_ERROR(at.stream->Synchronize());
  return environment_.check_numerics ? CheckNumerics(lane, at) : absl::OkStatus();
}

absl::Status Executable::CheckNumerics(Lane& lane, const BoundInstruction& at) const {
  const std::vector<TensorSpec>& specs = plan_->program.nodes[at.index].outputs;
  for (size_t k = 0; k < specs.size(); ++k) {
    const void* data = outputs_[at.index][k];
    if (data == nullptr || !IsFloating(specs[k].dtype)) continue;
    Tensor copy;
    if (lane.asynchronous) {
      ASSIGN_OR_RETURN(copy, Tensor::Allocate(specs[k].dtype, specs[k].shape));
      RETURN_IF_ERROR(
          at.stream->Copy(copy.raw(), devices_.device(0), data, devices_.device(lane.device), copy.bytes()));
      RETURN_IF_ERROR(at.stream->Synchronize());
      data = copy.raw();
    }
    const NonFinite found = FindNonFinite(specs[k].dtype, data, specs[k].shape.elements());
    if (!found.any()) continue;
    return absl::InvalidArgumentError(absl::StrCat("output ", k, ", ", DTypeName(specs[k].dtype),
                                                   specs[k].shape.ToString(), ", has ", found.ToString()));
  }
  return absl::OkStatus();
}

std::string Executable::PositionOf(const Lane& lane, absl::Time now) const {
  const size_t position = lane.position.load(std::memory_order_relaxed);
  if (position >= lane.instructions.size()) {
    return lane.asynchronous ? "has been given the whole step" : "is done";
  }
  const BoundInstruction& at = lane.instructions[position];
  std::string what;
  if (at.kind == Instruction::Kind::kRun) {
    what = absl::StrCat(lane.asynchronous ? "is given " : "runs ", Describe(plan_->program.nodes[at.index]));
  } else if (at.kind == Instruction::Kind::kCollective) {
    what = absl::StrCat("waits for the other towers in ", Describe(plan_->program.nodes[at.index]));
  } else {
    what = "waits for another device";
    for (const StreamProgram& stream : plan_->streams) {
      int node = -1;
      for (const Instruction& instruction : stream.instructions) {
        if (!IsEvent(instruction.kind)) node = instruction.index;
        const bool records = instruction.kind == Instruction::Kind::kRecord && instruction.index == at.index;
        if (!records || node < 0) continue;
        what = absl::StrCat("waits for ", devices_.device(stream.device).name().ToLocalString(), " to do ",
                            Describe(plan_->program.nodes[node]));
      }
    }
  }
  const absl::Time since = absl::FromUnixNanos(lane.since.load(std::memory_order_relaxed));
  return absl::StrCat(what, ", since ", absl::FormatDuration(absl::Trunc(now - since, absl::Milliseconds(1))));
}

// One line a lane.
std::string Executable::Positions() const {
  const absl::Time now = absl::Now();
  std::string text;
  for (const auto& lane : lanes_) {
    absl::StrAppend(&text, text.empty() ? "  " : "\n  ", devices_.device(lane->device).name().ToString(), " ",
                    PositionOf(*lane, now));
  }
  return text;
}

absl::Status Executable::PrepareTrace() {
  for (auto& lane : lanes_) {
    if (lane->clock != nullptr) continue;
    const auto stamps = static_cast<int>(2 * lane->instructions.size());
    ASSIGN_OR_RETURN(lane->clock, devices_.device(lane->device).NewClock(stamps));
  }
  return absl::OkStatus();
}

absl::Status Executable::FinishTrace(StepTrace& trace) {
  trace.end = absl::Now();
  trace.spans.clear();
  for (auto& lane : lanes_) {
    for (size_t i = 0; i < lane->instructions.size(); ++i) {
      const BoundInstruction& at = lane->instructions[i];
      StepSpan span{.stream = at.program, .instruction = {at.kind, at.index}};
      ASSIGN_OR_RETURN(span.begin, lane->clock->Read(static_cast<int>(2 * i)));
      ASSIGN_OR_RETURN(span.end, lane->clock->Read(static_cast<int>(2 * i + 1)));
      trace.spans.push_back(span);
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry
