// How a plan becomes addresses, streams and threads.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/status.h"
#include "framework/runtime/executable.h"

namespace belfry {

absl::StatusOr<std::unique_ptr<Executable>> Executable::Create(CompiledPlan compiled, const Environment& environment) {
  auto executable = std::unique_ptr<Executable>(new Executable(std::move(compiled.plan), environment));
  executable->kernels_ = std::move(compiled.kernels);
  RETURN_IF_ERROR(executable->Allocate());
  RETURN_IF_ERROR(executable->UploadConstants());
  const std::vector<ProgramNode>& nodes = executable->plan_->program.nodes;
  executable->inputs_.resize(nodes.size());
  executable->outputs_.resize(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Value& input : nodes[i].inputs) executable->inputs_[i].push_back(executable->Address(input));
    for (size_t k = 0; k < nodes[i].outputs.size(); ++k) {
      executable->outputs_[i].push_back(executable->Address({static_cast<int>(i), static_cast<int>(k)}));
    }
  }
  RETURN_IF_ERROR(executable->BindSlots());
  RETURN_IF_ERROR(executable->BindLanes());
  RETURN_IF_ERROR(executable->BindFeeds());
  RETURN_IF_ERROR(executable->BindCollectives());
  executable->BindThreads();
  RETURN_IF_ERROR(executable->BindOneThread());
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
  runs_.assign(devices_.size(), 0);
  return absl::OkStatus();
}

absl::Status Executable::UploadConstants() {
  const std::vector<ProgramNode>& nodes = plan_->program.nodes;
  constants_.resize(nodes.size());
  std::map<int, std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Device& device = devices_.device(nodes[i].device);
    if (nodes[i].op->kind != OpKind::kConst || !device.asynchronous()) continue;
    const Tensor& value = nodes[i].attrs.Get<Tensor>("value");
    if (value.bytes() == 0) continue;
    ASSIGN_OR_RETURN(constants_[i], DeviceMemory::Allocate(device, value.bytes()));
    std::unique_ptr<Stream>& stream = streams[nodes[i].device];
    if (stream == nullptr) {
      ASSIGN_OR_RETURN(stream, device.NewStream(StreamKind::kCopyIn));
    }
    RETURN_IF_ERROR(stream->Copy(constants_[i].data(), device, value.raw(), devices_.device(0), value.bytes()));
  }
  for (auto& [device, stream] : streams) RETURN_IF_ERROR(stream->Synchronize());
  return absl::OkStatus();
}

void* Executable::Address(Value value) const {
  const Storage& storage = plan_->memory.outputs[value.node][value.index];
  const ProgramNode& owner = plan_->program.nodes[storage.node];
  switch (storage.kind) {
    case Storage::Kind::kNowhere: return nullptr;
    case Storage::Kind::kArena: return static_cast<std::byte*>(arenas_[owner.device].data()) + storage.offset;
    case Storage::Kind::kVariable: return environment_.variables.at(owner.source).data;
    case Storage::Kind::kConstant:
      return devices_.device(owner.device).asynchronous() ? constants_[storage.node].data()
                                                          : const_cast<void*>(owner.attrs.Get<Tensor>("value").raw());
  }
  return nullptr;
}

absl::Status Executable::BindSlots() {
  const auto bind = [&](Value value, std::vector<Slot>& slots) -> absl::Status {
    Slot slot{Address(value), plan_->program.spec(value), plan_->program.nodes[value.node].device};
    Device& device = devices_.device(slot.device);
    if (device.asynchronous() && slot.data != nullptr) {
      for (DeviceMemory& staged : slot.staged) {
        ASSIGN_OR_RETURN(staged, DeviceMemory::AllocateHost(device, slot.spec.bytes()));
      }
    }
    slots.push_back(std::move(slot));
    return absl::OkStatus();
  };
  for (const Value& feed : plan_->program.feeds) RETURN_IF_ERROR(bind(feed, feeds_));
  for (const Value& fetch : plan_->program.fetches) RETURN_IF_ERROR(bind(fetch, fetches_));
  return absl::OkStatus();
}

// The lane that serves a stream; made if it is not there yet, with the stream as its last one.
absl::StatusOr<Executable::Lane*> Executable::LaneOf(int device, StreamKind kind) {
  Device& owner = devices_.device(device);
  Lane* lane = nullptr;
  for (auto& known : lanes_) {
    if (owner.asynchronous() && known->device == device) lane = known.get();
  }
  if (lane == nullptr) {
    lane = lanes_.emplace_back(std::make_unique<Lane>()).get();
    lane->device = device;
    lane->asynchronous = owner.asynchronous();
    asynchronous_ = asynchronous_ || lane->asynchronous;
    if (lane->asynchronous) lane->begun = owner.NewEvent();
  }
  Stream* stream = nullptr;
  if (lane->asynchronous) {
    ASSIGN_OR_RETURN(stream, queues_.Get(device, kind));
    if (!lane->streams.empty()) lane->joined.push_back(owner.NewEvent());
  } else {
    ASSIGN_OR_RETURN(lane->own.emplace_back(), owner.NewStream(kind));
    stream = lane->own.back().get();
  }
  lane->streams.push_back(stream);
  return lane;
}

absl::Status Executable::BindInstruction(Lane& lane, Stream* stream, const Instruction& instruction, int program) {
  BoundInstruction entry{.kind = instruction.kind, .index = instruction.index, .program = program, .stream = stream};
  if (instruction.kind == Instruction::Kind::kRecord) {
    events_[instruction.index] = devices_.device(lane.device).NewEvent();
  }
  if (instruction.kind == Instruction::Kind::kRun) {
    const int index = instruction.index;
    const ProgramNode& node = plan_->program.nodes[index];
    entry.kernel = &kernels_[index].run;
    entry.writes = Updates(node);
    auto* arena = static_cast<std::byte*>(arenas_[lane.device].data());
    entry.context = {inputs_[index].data(), outputs_[index].data(), arena + plan_->memory.workspace_offset[index], 0,
                     stream};
    if (node.op == &TransferOp() && !lane.asynchronous) {
      // A CPU cannot read the memory of another kind of device by itself.
      Device& from = devices_.device(plan_->program.nodes[node.inputs[0].node].device);
      if (from.asynchronous()) {
        ASSIGN_OR_RETURN(lane.own.emplace_back(), from.NewStream(StreamKind::kCopyOut));
        entry.context.stream = lane.own.back().get();
      }
    }
  }
  lane.instructions.push_back(entry);
  return absl::OkStatus();
}

absl::Status Executable::BindLanes() {
  std::map<Lane*, std::vector<std::pair<Stream*, const StreamProgram*>>> programs;
  for (const StreamProgram& program : plan_->streams) {
    ASSIGN_OR_RETURN(Lane* const lane, LaneOf(program.device, program.kind));
    programs[lane].push_back({lane->streams.back(), &program});
  }
  for (const std::vector<Slot>* slots : {&feeds_, &fetches_}) {
    for (const Slot& slot : *slots) {
      const bool known =
          std::any_of(lanes_.begin(), lanes_.end(), [&](auto& lane) { return lane->device == slot.device; });
      if (known || !devices_.device(slot.device).asynchronous()) continue;
      RETURN_IF_ERROR(LaneOf(slot.device, StreamKind::kCompute).status());
    }
  }
  for (auto& lane : lanes_) {
    mixed_ = mixed_ || (asynchronous_ && !lane->asynchronous);
    // Each node with its waits before it and its records after it; the nodes of all streams by index, so in an order in
    // which nothing is enqueued before what it waits for.
    std::vector<std::pair<Stream*, const StreamProgram*>>& streams = programs[lane.get()];
    std::vector<size_t> next(streams.size(), 0);
    const auto node_at = [&](size_t s) {
      const std::vector<Instruction>& list = streams[s].second->instructions;
      size_t at = next[s];
      while (at < list.size() && list[at].kind == Instruction::Kind::kWait) ++at;
      return at < list.size() ? list[at].index : std::numeric_limits<int>::max();
    };
    while (true) {
      size_t first = 0;
      for (size_t s = 1; s < streams.size(); ++s) {
        if (node_at(s) < node_at(first)) first = s;
      }
      if (streams.empty() || node_at(first) == std::numeric_limits<int>::max()) break;
      const std::vector<Instruction>& list = streams[first].second->instructions;
      bool ran = false;
      for (size_t& at = next[first]; at < list.size(); ++at) {
        const bool runs = list[at].kind == Instruction::Kind::kRun || list[at].kind == Instruction::Kind::kCollective;
        if (ran && list[at].kind != Instruction::Kind::kRecord) break;
        ran = ran || runs;
        const auto program = static_cast<int>(streams[first].second - plan_->streams.data());
        RETURN_IF_ERROR(BindInstruction(*lane, streams[first].first, list[at], program));
      }
    }
  }
  for (auto& lane : lanes_) {
    for (BoundInstruction& entry : lane->instructions) {
      const bool event = entry.kind == Instruction::Kind::kWait || entry.kind == Instruction::Kind::kRecord;
      if (event) entry.event = events_[entry.index].get();
      const bool runs = entry.kind == Instruction::Kind::kRun;
      if (lane->asynchronous && runs && kernels_[entry.index].error) lane->checked.push_back(&entry);
    }
  }
  return absl::OkStatus();
}

absl::Status Executable::BindFeeds() {
  for (Slot& feed : feeds_) {
    Device& device = devices_.device(feed.device);
    if (!device.asynchronous() || feed.data == nullptr || feed.spec.bytes() < kFedAheadBytes) continue;
    for (DeviceMemory& ahead : feed.ahead) {
      ASSIGN_OR_RETURN(ahead, DeviceMemory::Allocate(device, feed.spec.bytes()));
    }
    for (auto& lane : lanes_) {
      if (lane->device != feed.device || lane->copy_in != nullptr) continue;
      ASSIGN_OR_RETURN(lane->copy_in, queues_.Get(feed.device, StreamKind::kCopyIn));
      lane->fed = device.NewEvent();
    }
  }
  return absl::OkStatus();
}

void Executable::BindThreads() {
  if (lanes_.size() < 2) return;
  for (auto& lane : lanes_) {
    lane->worker = &environment_.threads.Get(lane->device, lane->streams[0]->kind());
    lane->task.body = [this, &lane = *lane] {
      absl::Status status = RunLane(lane, run_, *limits_);
      if (!status.ok()) Fail(std::move(status));
    };
  }
}

absl::Status Executable::BindCollectives() {
  // By collective: rank -> (node, position in it).
  std::vector<std::map<int64_t, std::pair<int, int>>> groups(plan_->program.collectives.size());
  for (size_t i = 0; i < plan_->program.nodes.size(); ++i) {
    const ProgramNode& node = plan_->program.nodes[i];
    for (size_t k = 0; k < node.ranks.size(); ++k) {
      groups[node.collective][node.ranks[k]] = {static_cast<int>(i), static_cast<int>(k)};
    }
  }
  std::map<int, std::tuple<Collective*, int, int>> by_node;
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto& ranks = groups[group];
    if (ranks.empty()) continue;  // of one rank, and bypassed
    const ProgramNode& first = plan_->program.nodes[ranks.begin()->second.first];
    const std::string& kind = first.attrs.String("reduction");
    CollectiveSpec spec{.kind = kind == "mean"  ? CollectiveKind::kMean
                                : kind == "sum" ? CollectiveKind::kSum
                                                : CollectiveKind::kBroadcast,
                        .name = plan_->program.collectives[group].name,
                        .dtype = first.outputs[0].dtype};
    const auto per_rank = first.outputs.size() / first.ranks.size();
    size_t bytes = 0;
    for (size_t k = 0; k < per_rank; ++k) bytes += AlignUp(first.outputs[k].bytes());
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
    ASSIGN_OR_RETURN(std::unique_ptr<Collective> collective, environment_.collectives(std::move(spec)));
    for (const auto& [node, participant] : participants) {
      by_node[node] = {collective.get(), participant, static_cast<int>(participants.size())};
    }
    collectives_.push_back(std::move(collective));
  }
  for (auto& lane : lanes_) {
    for (BoundInstruction& entry : lane->instructions) {
      if (entry.kind == Instruction::Kind::kWait || entry.kind == Instruction::Kind::kRecord) continue;
      const auto found = by_node.find(entry.index);
      if (found == by_node.end()) continue;
      entry.kind = Instruction::Kind::kCollective;
      std::tie(entry.collective, entry.participant, entry.participants) = found->second;
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry
