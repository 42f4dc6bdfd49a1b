#include "framework/runtime/watch.h"

#include "absl/strings/str_cat.h"
#include "framework/base/finite.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"

namespace belfry {

absl::Status OnDevice(const absl::Status& status, const Device& device) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), " [on ", device.name().ToString(), "]"));
}

absl::Status Watch::Begin(bool traced, absl::Time deadline) {
  traced_ = traced;
  if (traced) RETURN_IF_ERROR(MakeClocks());
  watched_ = traced || debug_sync_ || check_numerics_ || observer_ != nullptr || deadline != absl::InfiniteFuture();
  if (!watched_) return absl::OkStatus();
  const int64_t now = absl::ToUnixNanos(SteadyNow());
  for (auto& lane : bound_.lanes) {
    lane->position.store(0, std::memory_order_relaxed);
    lane->since.store(now, std::memory_order_relaxed);
  }
  if (traced) begin_ = SteadyNow();
  return absl::OkStatus();
}

absl::Status Watch::MakeClocks() const {
  for (auto& lane : bound_.lanes) {
    if (lane->clock != nullptr) continue;
    const auto stamps = static_cast<int>(2 * lane->instructions.size());
    ASSIGN_OR_RETURN(lane->clock, bound_.devices.device(lane->device).NewClock(stamps));
  }
  return absl::OkStatus();
}

absl::Status Watch::Reach(Lane& lane, size_t position, const RunState& state) {
  const absl::Time now = SteadyNow();
  // Before `position` moves on: the previous instruction is the one that took the time.
  if (now >= state.deadline) return absl::DeadlineExceededError("the step exceeded its deadline");
  lane.since.store(absl::ToUnixNanos(now), std::memory_order_relaxed);
  lane.position.store(position, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status Watch::Run(Lane& lane, size_t position, RunState& state) {
  BoundInstruction& at = lane.instructions[position];
  RETURN_IF_ERROR(Reach(lane, position, state));
  const auto stamp = static_cast<int>(2 * position);
  if (traced_) RETURN_IF_ERROR(lane.clock->Stamp(*at.stream, stamp));
  RETURN_IF_ERROR(RunInstruction(at, state));
  if (traced_) RETURN_IF_ERROR(lane.clock->Stamp(*at.stream, stamp + 1));
  if (at.uses_event()) return absl::OkStatus();
  if (debug_sync_) RETURN_IF_ERROR(at.stream->Synchronize());
  if (observer_ != nullptr) RETURN_IF_ERROR(Observe(lane, at, state.run));
  return check_numerics_ ? CheckNumerics(lane, at) : absl::OkStatus();
}

absl::StatusOr<const void*> Watch::OnHost(const Lane& lane, const BoundInstruction& at, const TensorSpec& spec,
                                          const void* data, Tensor& copy) const {
  if (!lane.asynchronous) return data;
  const DeviceSet& devices = bound_.devices;
  ASSIGN_OR_RETURN(copy, Tensor::Allocate(spec.dtype, spec.shape));
  RETURN_IF_ERROR(at.stream->Copy(copy.raw(), devices.device(0), data, devices.device(lane.device), copy.bytes()));
  RETURN_IF_ERROR(at.stream->Synchronize());
  return copy.raw();
}

absl::Status Watch::Observe(const Lane& lane, const BoundInstruction& at, uint64_t run) const {
  const Program& program = bound_.plan->program;
  const ProgramNode& node = program.nodes[at.index];
  const auto show = [&](int output, const TensorSpec& spec, const void* data) -> absl::Status {
    if (data == nullptr) return absl::OkStatus();
    Tensor copy;
    ASSIGN_OR_RETURN(data, OnHost(lane, at, spec, data, copy));
    observer_({.node = node,
               .index = at.index,
               .output = output,
               .device = lane.device,
               .run = run,
               .spec = spec,
               .data = data});
    return absl::OkStatus();
  };
  for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
    RETURN_IF_ERROR(show(k, node.outputs[k], bound_.outputs[at.index][k]));
  }
  for (int k = 0; at.kind == Instruction::Kind::kRun && k < static_cast<int>(node.inputs.size()); ++k) {
    if (!InputArg(node, k).ref) continue;
    RETURN_IF_ERROR(show(-1 - k, program.spec(node.inputs[k]), bound_.inputs[at.index][k]));
  }
  return absl::OkStatus();
}

absl::Status Watch::CheckNumerics(const Lane& lane, const BoundInstruction& at) const {
  const std::vector<TensorSpec>& specs = bound_.plan->program.nodes[at.index].outputs;
  for (size_t k = 0; k < specs.size(); ++k) {
    const void* data = bound_.outputs[at.index][k];
    if (data == nullptr || !IsFloating(specs[k].dtype)) continue;
    Tensor copy;
    ASSIGN_OR_RETURN(data, OnHost(lane, at, specs[k], data, copy));
    const NonFinite found = FindNonFinite(specs[k].dtype, data, specs[k].shape.elements());
    if (!found.any()) continue;
    return absl::InvalidArgumentError(absl::StrCat("output ", k, ", ", DTypeName(specs[k].dtype),
                                                   specs[k].shape.ToString(), ", has ", found.ToString()));
  }
  return absl::OkStatus();
}

absl::Status Watch::FinishTrace(StepTrace& trace) const {
  trace.begin = begin_;
  trace.end = SteadyNow();
  trace.spans.clear();
  for (auto& lane : bound_.lanes) {
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

absl::Status Watch::Annotate(const absl::Status& status, const Lane& lane, const BoundInstruction& at) const {
  const std::string where = bound_.devices.device(lane.device).name().ToString();
  if (absl::IsDeadlineExceeded(status)) {
    return absl::Status(status.code(), absl::StrCat(status.message(), "; at that time\n", Positions()));
  }
  if (at.uses_event()) {
    return absl::Status(status.code(), absl::StrCat(status.message(), " (", where, " was waiting for another device)"));
  }
  return absl::Status(status.code(), absl::StrCat(status.message(), " [",
                                                  Describe(bound_.plan->program.nodes[at.index]), " on ", where, "]"));
}

// The last node before the record of the event, on the stream that records it.
std::string Watch::WaitText(const BoundInstruction& at) const {
  std::string text = "has been waiting for another device";
  for (const StreamProgram& stream : bound_.plan->streams) {
    int node = -1;
    for (const Instruction& instruction : stream.instructions) {
      const bool records = instruction.kind == Instruction::Kind::kRecord;
      if (!records && instruction.kind != Instruction::Kind::kWait) node = instruction.index;
      if (!records || instruction.index != at.index || node < 0) continue;
      text = absl::StrCat("has been waiting for ", bound_.devices.device(stream.device).name().ToLocalString(),
                          " to run ", Describe(bound_.plan->program.nodes[node]));
    }
  }
  return text;
}

std::string Watch::PositionOf(const Lane& lane, absl::Time now) const {
  const size_t position = lane.position.load(std::memory_order_relaxed);
  if (position >= lane.instructions.size()) {
    return lane.asynchronous ? "has been given the whole step" : "is done";
  }
  const BoundInstruction& at = lane.instructions[position];
  std::string text;
  if (at.kind == Instruction::Kind::kRun) {
    text = absl::StrCat(lane.asynchronous ? "has been enqueuing " : "has been running ",
                        Describe(bound_.plan->program.nodes[at.index]));
  } else if (at.kind == Instruction::Kind::kCollective) {
    text = absl::StrCat("has been waiting for the other towers in ", Describe(bound_.plan->program.nodes[at.index]));
  } else {
    text = WaitText(at);
  }
  const absl::Time since = absl::FromUnixNanos(lane.since.load(std::memory_order_relaxed));
  return absl::StrCat(text, " for ", absl::FormatDuration(absl::Trunc(now - since, absl::Milliseconds(1))));
}

// One line per lane.
std::string Watch::Positions() const {
  const absl::Time now = SteadyNow();
  std::string text;
  for (const auto& lane : bound_.lanes) {
    absl::StrAppend(&text, text.empty() ? "  " : "\n  ", bound_.devices.device(lane->device).name().ToString(), " ",
                    PositionOf(*lane, now));
  }
  return text;
}

}  // namespace belfry
