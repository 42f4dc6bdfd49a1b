#include "framework/runtime/executable.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/check.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"

namespace belfry {

absl::StatusOr<std::unique_ptr<Executable>> Executable::Create(CompiledPlan compiled, const DeviceSet& devices,
                                                               VariableStore& variables, DeviceThreads& threads) {
  auto executable = std::unique_ptr<Executable>(new Executable(std::move(compiled.plan), devices, threads));
  executable->kernels_ = std::move(compiled.kernels);
  RETURN_IF_ERROR(executable->Allocate());
  RETURN_IF_ERROR(executable->Bind(variables));
  return executable;
}

absl::Status Executable::Allocate() {
  for (int device = 0; device < devices_.size(); ++device) {
    const size_t bytes = plan_->memory.arena_bytes[device];
    absl::StatusOr<DeviceMemory> arena = DeviceMemory::Allocate(devices_.device(device), bytes);
    if (!arena.ok()) {
      return absl::Status(arena.status().code(),
                          absl::StrCat("The plan needs ", bytes, " bytes on ",
                                       devices_.device(device).name().ToString(), ": ", arena.status().message()));
    }
    arenas_.push_back(*std::move(arena));
  }
  for (int i = 0; i < plan_->events; ++i) events_.push_back(nullptr);
  return absl::OkStatus();
}

void* Executable::Address(Value value, VariableStore& variables) const {
  const Storage& storage = plan_->memory.outputs[value.node][value.index];
  const ProgramNode& owner = plan_->program.nodes[storage.node];
  switch (storage.kind) {
    case Storage::Kind::kNowhere: return nullptr;
    case Storage::Kind::kArena: return static_cast<std::byte*>(arenas_[owner.device].data()) + storage.offset;
    case Storage::Kind::kVariable: return variables.at(owner.source).data;
    case Storage::Kind::kConstant: return const_cast<void*>(owner.attrs.Get<Tensor>("value").raw());
  }
  return nullptr;
}

absl::Status Executable::Bind(VariableStore& variables) {
  const std::vector<ProgramNode>& nodes = plan_->program.nodes;
  inputs_.resize(nodes.size());
  outputs_.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Value& input : nodes[i].inputs) inputs_[i].push_back(Address(input, variables));
    for (size_t k = 0; k < nodes[i].outputs.size(); ++k) {
      outputs_[i].push_back(Address({static_cast<int>(i), static_cast<int>(k)}, variables));
    }
  }
  const auto slot = [&](Value value) {
    return Slot{Address(value, variables), plan_->program.spec(value), nodes[value.node].device};
  };
  for (const Value& feed : plan_->program.feeds) feeds_.push_back(slot(feed));
  for (const Value& fetch : plan_->program.fetches) fetches_.push_back(slot(fetch));

  for (const StreamProgram& program : plan_->streams) {
    Device& device = devices_.device(program.device);
    BoundStream bound{.device = program.device};
    ASSIGN_OR_RETURN(bound.stream, device.NewStream(program.kind));
    for (const Instruction& instruction : program.instructions) {
      BoundInstruction& entry = bound.instructions.emplace_back();
      entry.kind = instruction.kind;
      entry.index = instruction.index;
      if (instruction.kind == Instruction::Kind::kRecord) events_[instruction.index] = device.NewEvent();
      if (instruction.kind != Instruction::Kind::kRun) continue;
      const int node = instruction.index;
      auto* arena = static_cast<std::byte*>(arenas_[program.device].data());
      entry.kernel = &kernels_[node].run;
      for (size_t k = 0; k < inputs_[node].size(); ++k) {
        entry.writes = entry.writes || nodes[node].op->input_arg(static_cast<int>(k)).ref;
      }
      entry.context = {inputs_[node].data(), outputs_[node].data(), arena + plan_->memory.workspace_offset[node], 0,
                       bound.stream.get()};
    }
    streams_.push_back(std::move(bound));
  }
  for (BoundStream& stream : streams_) {
    for (BoundInstruction& entry : stream.instructions) {
      const bool event = entry.kind == Instruction::Kind::kWait || entry.kind == Instruction::Kind::kRecord;
      if (event) entry.event = events_[entry.index].get();
    }
  }
  if (streams_.size() > 1) BindThreads();
  return BindCollectives();
}

void Executable::BindThreads() {
  for (BoundStream& stream : streams_) {
    stream.worker = &threads_.Get(stream.device, stream.stream->kind());
    stream.task.body = [this, &stream] {
      absl::Status status = RunStream(stream, run_, *limits_);
      if (!status.ok()) Fail(std::move(status));
    };
  }
}

absl::Status Executable::BindCollectives() {
  std::map<std::string, std::map<int64_t, std::pair<int, int>>> groups;  // group -> rank -> (node, position in it)
  for (size_t i = 0; i < plan_->program.nodes.size(); ++i) {
    const ProgramNode& node = plan_->program.nodes[i];
    if (node.op->kind != OpKind::kAllReduce) continue;
    const std::vector<int64_t>& ranks = node.attrs.Ints("ranks");
    for (size_t k = 0; k < ranks.size(); ++k) {
      groups[node.attrs.String("group")][ranks[k]] = {static_cast<int>(i), static_cast<int>(k)};
    }
  }
  std::map<int, std::pair<Collective*, int>> by_node;
  for (const auto& [name, ranks] : groups) {
    const ProgramNode& first = plan_->program.nodes[ranks.begin()->second.first];
    const std::string& kind = first.attrs.String("reduction");
    CollectiveSpec spec{.kind = kind == "mean"  ? CollectiveKind::kMean
                                : kind == "sum" ? CollectiveKind::kSum
                                                : CollectiveKind::kBroadcast,
                        .name = name,
                        .dtype = first.outputs[0].dtype};
    const auto per_rank = first.outputs.size() / first.attrs.Ints("ranks").size();
    size_t bytes = 0;
    for (size_t k = 0; k < per_rank; ++k) bytes += (first.outputs[k].bytes() + 63) / 64 * 64;
    spec.elements = static_cast<int64_t>(bytes / SizeOf(spec.dtype));
    std::map<int, int> participants;  // node -> participant
    for (const auto& [rank, where] : ranks) {
      const auto [node, position] = where;
      const auto [participant, inserted] = participants.emplace(node, static_cast<int>(spec.participants.size()));
      if (inserted) spec.participants.push_back(&devices_.device(plan_->program.nodes[node].device));
      const size_t weight = position * (per_rank + 1);
      spec.ranks.push_back(
          {participant->second, outputs_[node][position * per_rank], static_cast<const float*>(inputs_[node][weight])});
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Collective> collective, MakeLocalCollective(std::move(spec)));
    for (const auto& [node, participant] : participants) by_node[node] = {collective.get(), participant};
    collectives_.push_back(std::move(collective));
  }
  for (BoundStream& stream : streams_) {
    for (BoundInstruction& entry : stream.instructions) {
      if (entry.kind == Instruction::Kind::kWait || entry.kind == Instruction::Kind::kRecord) continue;
      const auto found = by_node.find(entry.index);
      if (found == by_node.end()) continue;
      entry.kind = Instruction::Kind::kCollective;
      std::tie(entry.collective, entry.participant) = found->second;
    }
  }
  return absl::OkStatus();
}

absl::Status Executable::Explain(const absl::Status& status, const BoundStream& stream,
                                 const BoundInstruction& at) const {
  std::string where = devices_.device(stream.device).name().ToString();
  if (at.kind == Instruction::Kind::kWait || at.kind == Instruction::Kind::kRecord) {
    return absl::Status(status.code(), absl::StrCat(status.message(), " (", where, " was waiting for another device)"));
  }
  return absl::Status(status.code(), absl::StrCat(status.message(), " [", Describe(plan_->program.nodes[at.index]),
                                                  " on ", where, "]"));
}

absl::Status Executable::RunStream(BoundStream& stream, uint64_t run, const RunLimits& limits) {
  const bool limited = limits.deadline != absl::InfiniteFuture();
  for (BoundInstruction& at : stream.instructions) {
    if (failed_.load(std::memory_order_relaxed)) return absl::CancelledError("another stream failed");
    if (limits.cancelled != nullptr && limits.cancelled->load(std::memory_order_relaxed)) {
      return Explain(absl::CancelledError("Run call was cancelled"), stream, at);
    }
    if (limited && absl::Now() >= limits.deadline) {
      return Explain(absl::DeadlineExceededError("the step passed its deadline"), stream, at);
    }
    absl::Status status;
    switch (at.kind) {
      case Instruction::Kind::kRun:
        at.context.run = run;
        if (at.writes) wrote_.store(true, std::memory_order_relaxed);
        status = (*at.kernel)(at.context);
        break;
      case Instruction::Kind::kCollective: status = at.collective->Run(at.participant, turn_, limits.deadline); break;
      case Instruction::Kind::kWait: status = stream.stream->Wait(*at.event, turn_, limits.deadline); break;
      case Instruction::Kind::kRecord: stream.stream->Record(*at.event, turn_); break;
    }
    if (!status.ok()) return Explain(status, stream, at);
  }
  return absl::OkStatus();
}

void Executable::Fail(absl::Status status) {
  if (failed_.exchange(true)) return;
  error_ = std::move(status);
  for (auto& event : events_) event->Cancel();
  for (auto& collective : collectives_) collective->Cancel();
}

absl::Status Executable::RunAll(uint64_t run, const RunLimits& limits) {
  run_ = run;
  limits_ = &limits;
  for (BoundStream& stream : streams_) stream.worker->Start(stream.task);
  for (BoundStream& stream : streams_) stream.worker->Wait();
  if (!failed_.load()) return absl::OkStatus();
  for (auto& event : events_) event->Reset(turn_);
  for (auto& collective : collectives_) collective->Reset(turn_);
  failed_.store(false);
  return std::move(error_);
}

absl::Status Executable::Run(uint64_t run, const RunLimits& limits) {
  ++turn_;
  wrote_.store(false, std::memory_order_relaxed);
  absl::Status status;
  if (streams_.size() > 1) {
    status = RunAll(run, limits);
  } else if (!streams_.empty()) {
    const ScopedParallelThreads threads(devices_.device(streams_[0].device).threads());
    status = RunStream(streams_[0], run, limits);
  }
  if (status.ok() || !wrote_.load(std::memory_order_relaxed)) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(),
                                                  "; the step had begun to update variables, so some are updated and "
                                                  "others not: restore or initialize them before going on"));
}

}  // namespace belfry
