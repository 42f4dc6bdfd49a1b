// Why a second computation has the same bits on a machine without faults: kernels are functions of their inputs, and
// bound to split their work alike in every run (docs/determinism.md). The first of the two computations reads what the
// second one will read, since it runs right before it and writes to memory of its own: outputs that lie on inputs, and
// variables that are updated, have their place in scratch memory. So neither in-place ops nor the reuse of memory by
// later nodes needs care. Until the instruction is done no other may change its inputs, as the plan has it.
//
// Why a checksum holds: a result keeps its bytes until its last reader has run, which is the first that may overwrite
// them (compiler/passes/plan_memory.cc), and a variable until its next update. The checksum is looked at before either.
//
// Cost: an instruction of whose checksums none is looked at, and whose turn it is not, pays for a comparison.
#include "framework/runtime/recheck/recheck.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/host_name.h"
#include "framework/io/checksum.h"

namespace belfry {
namespace {

// "3 of 640 elements differ, the first is element 37, 0x3f800000 and then 0x3f810000"; empty if none does.
std::string Difference(const RecheckedInstruction::Result& result) {
  const size_t size = SizeOf(result.spec.dtype);
  const auto *const first = static_cast<const std::byte*>(result.first),
                    *second = static_cast<const std::byte*>(result.second);
  const int64_t elements = result.spec.shape.elements();
  int64_t differ = 0, at = -1;
  for (int64_t i = 0; i < elements; ++i) {
    if (std::memcmp(first + i * size, second + i * size, size) == 0) continue;
    if (differ++ == 0) at = i;
  }
  if (differ == 0) return "";
  uint64_t bits[2] = {0, 0};
  std::memcpy(&bits[0], first + at * size, size);
  std::memcpy(&bits[1], second + at * size, size);
  const int digits = static_cast<int>(2 * size);
  return absl::StrFormat("%d of %d elements differ, the first is element %d, 0x%0*x and then 0x%0*x", differ, elements,
                         at, digits, bits[0], digits, bits[1]);
}

}  // namespace

LaneRecheck::LaneRecheck(const Plan& plan, const Lane& lane, int steps, TeamCores cores, std::atomic<bool>& found)
    : plan_(plan),
      lane_(lane),
      steps_(static_cast<uint32_t>(steps)),
      found_(found),
      cores_(std::move(cores)),
      instructions_(lane.instructions.size()) {}

absl::Status LaneRecheck::Found(const std::string& what) {
  found_.store(true);
  std::string text = absl::StrCat("silent corruption: ", what, ". A core, the memory or the software of ", HostName(),
                                  " is at fault: test it before it is used again");
  if (steps_ > 1) {
    absl::StrAppend(&text, ", and resume from a checkpoint that is older than ", steps_,
                    " steps, in which all ops have been computed twice");
  }
  return absl::DataLossError(text);
}

absl::Status LaneRecheck::Look(const GuardedVariable& variable) {
  const VariableStorage& storage = *variable.storage;
  if (!storage.checksum.has_value() || io::Checksum(storage.data, storage.bytes) == *storage.checksum) {
    return absl::OkStatus();
  }
  return Found(absl::StrCat("the memory of variable ", variable.variable->name(), ", created at ",
                            variable.variable->location().ToString(), ", has changed since it was last written"));
}

absl::Status LaneRecheck::Before(size_t position, const RunState& state) {
  const RecheckedInstruction& at = instructions_[position];
  for (const ResultGuard* guard : at.looked) {
    if (guard->run != state.step_index || io::Checksum(guard->data, guard->bytes) == guard->checksum) continue;
    return Found(absl::StrCat("the memory of output ", guard->output, " of ",
                              Describe(plan_.program.nodes[guard->node]), " has changed before its last use"));
  }
  for (const GuardedVariable& variable : at.updated) {
    RETURN_IF_ERROR(Look(variable));
    variable.storage->checksum.reset();
  }
  if (!IsTurn(at, state)) return absl::OkStatus();
  for (const GuardedVariable& variable : at.read) RETURN_IF_ERROR(Look(variable));
  return at.results.empty() ? absl::OkStatus() : Compute(position, state);
}

absl::Status LaneRecheck::Compute(size_t position, const RunState& state) {
  const RecheckedInstruction& at = instructions_[position];
  const BoundInstruction& instruction = lane_.instructions[position];
  for (const RecheckedInstruction::Copy& copy : at.copies) std::memcpy(copy.to, copy.from, copy.bytes);
  KernelContext context = instruction.context;
  context.inputs = at.inputs.data();
  context.outputs = at.outputs.data();
  context.run = state.run;
  cores_.Stay();
  const absl::Status status = (*instruction.kernel)(context);
  status.ok() ? cores_.Move() : cores_.Restore();
  return status;
}

absl::Status LaneRecheck::Compare(const RecheckedInstruction& at) {
  for (const RecheckedInstruction::Result& result : at.results) {
    if (std::memcmp(result.first, result.second, result.spec.bytes()) == 0) continue;
    const std::string what = result.output < 0 ? absl::StrCat("the variable of input ", -1 - result.output)
                                               : absl::StrCat("output ", result.output);
    return Found(absl::StrCat(what, ", ", result.spec.ToString(), ", computed twice from the same inputs, ",
                              cores_.Text(), ", differs: ", Difference(result)));
  }
  return absl::OkStatus();
}

absl::Status LaneRecheck::After(size_t position, const RunState& state, const absl::Status& status) {
  const RecheckedInstruction& at = instructions_[position];
  if (!IsTurn(at, state)) return status;
  cores_.Restore();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(Compare(at));
  for (ResultGuard* guard : at.made) {
    guard->checksum = io::Checksum(guard->data, guard->bytes);
    guard->run = state.step_index;
  }
  for (const std::vector<GuardedVariable>* variables : {&at.updated, &at.read}) {
    for (const GuardedVariable& variable : *variables) {
      variable.storage->checksum = io::Checksum(variable.storage->data, variable.storage->bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status Recheck::Finish(const RunState& state) {
  for (const CommonResult& common : common_) {
    const ResultGuard& first = *common.ranks[0];
    for (const ResultGuard* other : common.ranks) {
      if (first.run != state.step_index || other->run != first.run || other->checksum == first.checksum) continue;
      found_.store(true);
      const auto text = [&](const ResultGuard& guard) {
        const ProgramNode& node = plan_->program.nodes[guard.node];
        return absl::StrCat("output ", guard.output, " of ", Describe(node), " on ",
                            devices_.device(node.device).name().ToString());
      };
      return absl::DataLossError(absl::StrCat("silent corruption: all towers get the same of a collective, but ",
                                              text(*other), " has other bits than ", text(first),
                                              ". A core or the memory of ", HostName(), " is at fault"));
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry
