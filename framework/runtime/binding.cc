// How a plan becomes addresses and streams.
//
// Invariant: after Bind, every pointer in a BoundInstruction, a KernelContext, a HostCopy or a CollectiveSpec stays
// valid, unless the program gives other memory (host_memory.h), for the life of the BoundPlan, and every lane can be
// issued from its first to its last instruction by one thread.
//
// Why it holds. Addresses: what is pointed at is an element of a vector that has its final size before anything points
// at it (kernels, inputs, outputs, the instructions of a lane), is owned by a unique_ptr (streams, events, collectives,
// lanes), or is device memory. Moving the BoundPlan moves the vectors, not their elements. Order: an asynchronous
// device has one lane for all of its streams, whose programs are merged by the index of the next node, each node with
// its waits before it and its records after it. Nodes are numbered in the order in which a single queue could run them,
// and an event is recorded after a node of lower index than the node that waits for it; so within a lane a record
// precedes its waits, and the thread that issues the lane never blocks on itself.
//
// Cost: the arenas at their peak size, two host buffers for each feed and fetch of an asynchronous device, and two
// device buffers for each large feed. Merging takes instructions * streams steps of a lane. All of it once per
// executable; a step pays for none of it.
#include "framework/runtime/binding.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

class Binder {
 public:
  Binder(CompiledPlan compiled, const BindingEnvironment& environment)
      : environment_(environment),
        devices_(environment.devices),
        plan_(*compiled.plan),
        nodes_(plan_.program.nodes),
        bound_{.plan = std::move(compiled.plan),
               .devices = environment.devices,
               .queues = environment.queues,
               .kernels = std::move(compiled.kernels)} {}

  absl::StatusOr<BoundPlan> Bind() {
    RETURN_IF_ERROR(AllocateArenas());
    RETURN_IF_ERROR(UploadConstants());
    BindAddresses();
    RETURN_IF_ERROR(BindHostCopies());
    RETURN_IF_ERROR(BindLanes());
    RETURN_IF_ERROR(BindLargeFeeds());
    RETURN_IF_ERROR(BindCollectives());
    return std::move(bound_);
  }

 private:
  using StreamPrograms = std::vector<std::pair<Stream*, const StreamProgram*>>;

  absl::Status AllocateArenas();
  absl::Status UploadConstants();
  void* Address(Value value) const;
  void BindAddresses();
  absl::Status BindHostCopies();
  absl::StatusOr<Lane*> AddStream(int device, StreamKind kind);
  absl::Status BindLanes();
  absl::Status MergePrograms(Lane& lane, const StreamPrograms& programs);
  absl::Status BindInstruction(Lane& lane, Stream* stream, const Instruction& instruction, int program);
  absl::Status BindLargeFeeds();
  absl::Status BindCollectives();

  const BindingEnvironment& environment_;
  const DeviceSet& devices_;
  const Plan& plan_;
  const std::vector<ProgramNode>& nodes_;
  BoundPlan bound_;
};

absl::Status Binder::AllocateArenas() {
  for (int device = 0; device < devices_.size(); ++device) {
    const size_t bytes = plan_.memory.arena_bytes[device];
    absl::StatusOr<DeviceMemory> arena = DeviceMemory::Allocate(devices_.device(device), bytes);
    if (!arena.ok()) {
      return absl::Status(arena.status().code(),
                          absl::StrCat("The plan needs ", bytes, " bytes on ",
                                       devices_.device(device).name().ToString(), ": ", arena.status().message()));
    }
    bound_.arenas.push_back(*std::move(arena));
  }
  return absl::OkStatus();
}

absl::Status Binder::UploadConstants() {
  bound_.constants.resize(nodes_.size());
  std::map<int, std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Device& device = devices_.device(nodes_[i].device);
    if (nodes_[i].op->kind != OpKind::kConst || !device.asynchronous()) continue;
    const Tensor& value = nodes_[i].attrs.Get<Tensor>("value");
    if (value.bytes() == 0) continue;
    ASSIGN_OR_RETURN(bound_.constants[i], DeviceMemory::Allocate(device, value.bytes()));
    std::unique_ptr<Stream>& stream = streams[nodes_[i].device];
    if (stream == nullptr) {
      ASSIGN_OR_RETURN(stream, device.NewStream(StreamKind::kCopyIn));
    }
    RETURN_IF_ERROR(stream->Copy(bound_.constants[i].data(), device, value.raw(), devices_.device(0), value.bytes()));
  }
  for (auto& [device, stream] : streams) RETURN_IF_ERROR(stream->Synchronize());
  return absl::OkStatus();
}

void* Binder::Address(Value value) const {
  const Storage& storage = plan_.memory.outputs[value.node][value.index];
  const ProgramNode& owner = nodes_[storage.node];
  void* data = nullptr;
  switch (storage.kind) {
    case Storage::Kind::kNowhere: return nullptr;
    case Storage::Kind::kArena: data = bound_.arenas[owner.device].data(); break;
    case Storage::Kind::kVariable: data = environment_.variables.at(owner.source).data; break;
    case Storage::Kind::kConstant:
      data = devices_.device(owner.device).asynchronous() ? bound_.constants[storage.node].data()
                                                          : const_cast<void*>(owner.attrs.Get<Tensor>("value").raw());
      break;
  }
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + storage.offset;
}

void Binder::BindAddresses() {
  bound_.inputs.resize(nodes_.size());
  bound_.outputs.resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const Value& input : nodes_[i].inputs) bound_.inputs[i].push_back(Address(input));
    for (size_t k = 0; k < nodes_[i].outputs.size(); ++k) {
      bound_.outputs[i].push_back(Address({static_cast<int>(i), static_cast<int>(k)}));
    }
  }
}

absl::Status Binder::BindHostCopies() {
  const auto bind = [&](Value value, std::vector<HostCopy>& copies) -> absl::Status {
    HostCopy copy{.data = Address(value), .spec = plan_.program.spec(value), .device = nodes_[value.node].device};
    copy.own = copy.data;
    Device& device = devices_.device(copy.device);
    if (device.asynchronous() && copy.data != nullptr) {
      for (DeviceMemory& staged : copy.staged) {
        ASSIGN_OR_RETURN(staged, DeviceMemory::AllocateHost(device, copy.spec.bytes()));
      }
    }
    copies.push_back(std::move(copy));
    return absl::OkStatus();
  };
  for (const Value& feed : plan_.program.feeds) RETURN_IF_ERROR(bind(feed, bound_.feeds));
  for (const Value& fetch : plan_.program.fetches) RETURN_IF_ERROR(bind(fetch, bound_.fetches));
  return absl::OkStatus();
}

// The lane that serves a stream, made if there is none yet; the stream becomes its last one.
absl::StatusOr<Lane*> Binder::AddStream(int device, StreamKind kind) {
  Device& owner = devices_.device(device);
  Lane* lane = nullptr;
  for (auto& known : bound_.lanes) {
    if (owner.asynchronous() && known->device == device) lane = known.get();
  }
  if (lane == nullptr) {
    lane = bound_.lanes.emplace_back(std::make_unique<Lane>()).get();
    lane->device = device;
    lane->asynchronous = owner.asynchronous();
    bound_.asynchronous = bound_.asynchronous || lane->asynchronous;
    if (lane->asynchronous) lane->begun = owner.NewEvent();
  }
  Stream* stream = nullptr;
  if (lane->asynchronous) {
    ASSIGN_OR_RETURN(stream, bound_.queues.Get(device, kind));
    if (!lane->streams.empty()) lane->rejoined.push_back(owner.NewEvent());
  } else {
    ASSIGN_OR_RETURN(lane->owned.emplace_back(), owner.NewStream(kind));
    stream = lane->owned.back().get();
  }
  lane->streams.push_back(stream);
  return lane;
}

absl::Status Binder::BindInstruction(Lane& lane, Stream* stream, const Instruction& instruction, int program) {
  BoundInstruction entry{.kind = instruction.kind, .index = instruction.index, .program = program, .stream = stream};
  if (instruction.kind == Instruction::Kind::kRecord) {
    bound_.events[instruction.index] = devices_.device(lane.device).NewEvent();
  }
  if (instruction.kind == Instruction::Kind::kRun) {
    const int index = instruction.index;
    const ProgramNode& node = nodes_[index];
    entry.kernel = &bound_.kernels[index].run;
    entry.writes = Updates(node);
    auto* arena = static_cast<std::byte*>(bound_.arenas[lane.device].data());
    entry.context = {bound_.inputs[index].data(), bound_.outputs[index].data(),
                     arena + plan_.memory.workspace_offset[index], 0, stream};
    if (node.op == &TransferOp() && !lane.asynchronous) {
      // A CPU cannot read the memory of another kind of device by itself.
      Device& from = devices_.device(nodes_[node.inputs[0].node].device);
      if (from.asynchronous()) {
        ASSIGN_OR_RETURN(lane.owned.emplace_back(), from.NewStream(StreamKind::kCopyOut));
        entry.context.stream = lane.owned.back().get();
      }
    }
  }
  lane.instructions.push_back(entry);
  return absl::OkStatus();
}

absl::Status Binder::MergePrograms(Lane& lane, const StreamPrograms& programs) {
  std::vector<size_t> next(programs.size(), 0);
  const auto node_at = [&](size_t s) {
    const std::vector<Instruction>& list = programs[s].second->instructions;
    size_t at = next[s];
    while (at < list.size() && list[at].kind == Instruction::Kind::kWait) ++at;
    return at < list.size() ? list[at].index : std::numeric_limits<int>::max();
  };
  while (!programs.empty()) {
    size_t first = 0;
    for (size_t s = 1; s < programs.size(); ++s) {
      if (node_at(s) < node_at(first)) first = s;
    }
    if (node_at(first) == std::numeric_limits<int>::max()) break;
    const std::vector<Instruction>& list = programs[first].second->instructions;
    const auto program = static_cast<int>(programs[first].second - plan_.streams.data());
    bool node_done = false;
    for (size_t& at = next[first]; at < list.size(); ++at) {
      if (node_done && list[at].kind != Instruction::Kind::kRecord) break;
      node_done =
          node_done || list[at].kind == Instruction::Kind::kRun || list[at].kind == Instruction::Kind::kCollective;
      RETURN_IF_ERROR(BindInstruction(lane, programs[first].first, list[at], program));
    }
  }
  return absl::OkStatus();
}

absl::Status Binder::BindLanes() {
  bound_.events.resize(plan_.events);
  std::map<Lane*, StreamPrograms> programs;
  for (const StreamProgram& program : plan_.streams) {
    ASSIGN_OR_RETURN(Lane* const lane, AddStream(program.device, program.kind));
    programs[lane].push_back({lane->streams.back(), &program});
  }
  for (const std::vector<HostCopy>* copies : {&bound_.feeds, &bound_.fetches}) {
    for (const HostCopy& copy : *copies) {
      const bool known = std::any_of(bound_.lanes.begin(), bound_.lanes.end(),
                                     [&](const auto& lane) { return lane->device == copy.device; });
      if (known || !devices_.device(copy.device).asynchronous()) continue;
      RETURN_IF_ERROR(AddStream(copy.device, StreamKind::kCompute).status());
    }
  }
  for (auto& lane : bound_.lanes) {
    bound_.mixed = bound_.mixed || (bound_.asynchronous && !lane->asynchronous);
    RETURN_IF_ERROR(MergePrograms(*lane, programs[lane.get()]));
  }
  // Only now are all events made, and do the instructions of each lane stay where they are.
  for (auto& lane : bound_.lanes) {
    for (BoundInstruction& entry : lane->instructions) {
      if (entry.uses_event()) entry.event = bound_.events[entry.index].get();
      const bool runs = entry.kind == Instruction::Kind::kRun;
      if (lane->asynchronous && runs && bound_.kernels[entry.index].error) lane->checked.push_back(&entry);
    }
  }
  return absl::OkStatus();
}

absl::Status Binder::BindLargeFeeds() {
  for (HostCopy& feed : bound_.feeds) {
    Device& device = devices_.device(feed.device);
    if (!device.asynchronous() || feed.data == nullptr || feed.spec.bytes() < kFedAheadBytes) continue;
    for (DeviceMemory& ahead : feed.ahead) {
      ASSIGN_OR_RETURN(ahead, DeviceMemory::Allocate(device, feed.spec.bytes()));
    }
    for (auto& lane : bound_.lanes) {
      if (lane->device != feed.device || lane->copy_in != nullptr) continue;
      ASSIGN_OR_RETURN(lane->copy_in, bound_.queues.Get(feed.device, StreamKind::kCopyIn));
      lane->fed = device.NewEvent();
    }
  }
  return absl::OkStatus();
}

CollectiveKind KindOf(absl::string_view reduction) {
  if (reduction == "mean") return CollectiveKind::kMean;
  if (reduction == "sum") return CollectiveKind::kSum;
  if (reduction == "reduce_scatter") return CollectiveKind::kReduceScatter;
  if (reduction == "all_gather") return CollectiveKind::kAllGather;
  return CollectiveKind::kBroadcast;
}

absl::Status Binder::BindCollectives() {
  const std::vector<CollectiveGroup>& names = plan_.program.collectives;
  std::vector<std::map<int64_t, std::pair<int, int>>> groups(names.size());  // rank -> (node, position in it)
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ProgramNode& node = nodes_[i];
    for (size_t k = 0; k < node.ranks.size(); ++k) {
      groups[node.collective][node.ranks[k]] = {static_cast<int>(i), static_cast<int>(k)};
    }
  }
  std::map<int, std::tuple<Collective*, int, int>> by_node;
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto& ranks = groups[group];
    if (ranks.empty()) continue;  // a collective of one rank, which was bypassed
    const ProgramNode& first = nodes_[ranks.begin()->second.first];
    CollectiveSpec spec{.kind = KindOf(first.attrs.String("reduction")),
                        .name = names[group].name,
                        .dtype = first.outputs[0].dtype,
                        .first = static_cast<int>(ranks.begin()->first),
                        .size = static_cast<int>(names[group].size)};
    const auto per_rank = first.outputs.size() / first.ranks.size();
    spec.elements = static_cast<int64_t>(BucketBytes(plan_.program, first) / SizeOf(spec.dtype));
    std::map<int, int> participants;  // node -> participant
    for (const auto& [rank, where] : ranks) {
      const auto [node, position] = where;
      const auto [participant, inserted] = participants.emplace(node, static_cast<int>(spec.participants.size()));
      if (inserted) spec.participants.push_back(&devices_.device(nodes_[node].device));
      const size_t weight = position * (per_rank + 1);
      spec.ranks.push_back({participant->second, bound_.outputs[node][position * per_rank],
                            static_cast<const float*>(bound_.inputs[node][weight])});
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Collective> collective, environment_.collectives(std::move(spec)));
    for (const auto& [node, participant] : participants) {
      by_node[node] = {collective.get(), participant, static_cast<int>(participants.size())};
    }
    bound_.collectives.push_back(std::move(collective));
  }
  for (auto& lane : bound_.lanes) {
    for (BoundInstruction& entry : lane->instructions) {
      if (entry.uses_event()) continue;
      const auto found = by_node.find(entry.index);
      if (found == by_node.end()) continue;
      entry.kind = Instruction::Kind::kCollective;
      std::tie(entry.collective, entry.participant, entry.participants) = found->second;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BoundPlan> Bind(CompiledPlan compiled, const BindingEnvironment& environment) {
  return Binder(std::move(compiled), environment).Bind();
}

}  // namespace belfry
