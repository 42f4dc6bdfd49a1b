#include "tests/framework/collective/fake_nccl.h"

#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/half.h"
#include "framework/base/mutex.h"
#include "tests/fake_gpu/fake_gpu.h"

namespace belfry {
namespace {

struct Operation {
  bool broadcast = false;
  const void* send = nullptr;
  void* receive = nullptr;
  int64_t elements = 0;
  DType dtype = DType::kUInt8;
  int root = 0;
  Stream* stream = nullptr;

  bool Matches(const Operation& other) const {
    return broadcast == other.broadcast && elements == other.elements && dtype == other.dtype && root == other.root;
  }
};

template <class T>
void AddUp(const std::vector<Operation>& ranks) {
  for (int64_t i = 0; i < ranks[0].elements; ++i) {
    T sum = static_cast<const T*>(ranks[0].send)[i];
    for (size_t r = 1; r < ranks.size(); ++r) sum = static_cast<T>(sum + static_cast<const T*>(ranks[r].send)[i]);
    for (const Operation& rank : ranks) static_cast<T*>(rank.receive)[i] = sum;
  }
}

void Compute(const std::vector<Operation>& ranks) {
  if (ranks[0].broadcast) {
    for (const Operation& rank : ranks) {
      if (rank.elements > 0) std::memmove(rank.receive, ranks[rank.root].send, rank.elements);
    }
    return;
  }
  switch (ranks[0].dtype) {
    case DType::kFloat64: return AddUp<double>(ranks);
    case DType::kFloat16: return AddUp<Half>(ranks);
    case DType::kBFloat16: return AddUp<BFloat16>(ranks);
    default: return AddUp<float>(ranks);
  }
}

// Where the ranks of a clique meet on their streams.
struct Place {
  std::vector<Operation> ranks;
  std::set<int> arrived;
  bool done = false;
};

struct Clique {
  int ranks = 0;
  std::map<int, int> cards;  // of each rank that has joined
  std::map<uint64_t, Place> places;
  std::map<std::pair<std::thread::id, uint64_t>, int>
      ungrouped;  // which rank a thread gave an operation without a group
  bool broken = false;
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  NcclResult state = NcclResult::kInProgress;
  bool ended = false, aborted = false, finalized = false;
  uint64_t next = 0;  // place
  int under_way = 0;  // operations on streams
  std::thread launch;
};

struct Group {
  int depth = 0;
  NcclResult error = NcclResult::kSuccess;  // of a call in it: then nothing of it is launched
  std::set<Communicator*> joining;
  std::map<Communicator*, std::vector<Operation>> operations;
};

Communicator& Real(NcclComm& comm) { return reinterpret_cast<Communicator&>(comm); }

}  // namespace

struct FakeNccl::World {
  Mutex mutex;
  int fail_in = 0;
  NcclResult failure = NcclResult::kInternalError;
  absl::Duration delay;
  bool hang = false;
  uint32_t ids = 0;
  int aborted = 0, cut_short = 0;
  std::map<uint32_t, std::shared_ptr<Clique>> cliques;
  std::vector<std::shared_ptr<Communicator>> communicators;  // for ever, so that a use after the end is seen
  std::map<std::thread::id, Group> groups;
  std::vector<std::string> misuse;

  bool Fails() {
    if (fail_in == 0 || --fail_in > 0) return false;
    if (Mine().depth > 0) Mine().error = failure;
    return true;
  }
  NcclResult Misuse(std::string what) {
    misuse.push_back(std::move(what));
    return NcclResult::kInvalidUsage;
  }
  Group& Mine() { return groups[std::this_thread::get_id()]; }

  NcclResult Add(Communicator& at, const Operation& operation) {
    if (Fails()) return failure;
    if (at.ended) return Misuse("a collective on a communicator that has ended");
    if (at.state != NcclResult::kSuccess) return NcclResult::kInvalidArgument;
    Group& group = Mine();
    if (!group.joining.empty()) return Misuse("a collective in the group of an initialisation");
    for (const auto& [thread, other] : groups) {
      if (&other != &group && other.operations.count(&at) > 0) return Misuse("two threads use one communicator");
    }
    group.operations[&at].push_back(operation);
    if (group.depth > 0) return NcclResult::kSuccess;
    ++group.depth;  // a group of its own
    const auto [found, inserted] = at.clique->ungrouped.try_emplace({std::this_thread::get_id(), at.next}, at.rank);
    if (!inserted && found->second != at.rank) {
      group = {};
      return Misuse("one thread serves two ranks without a group: the first call waits for ever");
    }
    return NcclResult::kInProgress;
  }

  // What a rank does on its stream.
  void Meet(Communicator& at, uint64_t number, const Operation& operation) {
    const MutexLock lock(mutex);
    Clique& clique = *at.clique;
    Place& place = clique.places[number];
    place.ranks.resize(clique.ranks);
    if (!place.arrived.empty() && !place.ranks[*place.arrived.begin()].Matches(operation)) {
      Misuse(absl::StrCat("rank ", at.rank, " does not do what the others do at place ", number));
      clique.broken = true;
      for (auto& other : communicators) {
        if (other->clique == at.clique) other->state = NcclResult::kInternalError;
      }
    }
    place.ranks[at.rank] = operation;
    place.arrived.insert(at.rank);
    const bool all = static_cast<int>(place.arrived.size()) == clique.ranks;
    if (all && !hang && !clique.broken && !at.aborted) {
      Compute(place.ranks);
      place.done = true;
      mutex.NotifyAll();
    }
    mutex.Await([&] { return place.done || at.aborted; });
    if (!place.done) ++cut_short;
    --at.under_way;
    mutex.NotifyAll();
  }
};

FakeNccl::FakeNccl() : world_(std::make_shared<World>()) {}

FakeNccl::~FakeNccl() {
  std::vector<std::shared_ptr<Communicator>> all;
  {
    const MutexLock lock(world_->mutex);
    for (auto& communicator : world_->communicators) communicator->aborted = true;
    all = world_->communicators;
    world_->mutex.NotifyAll();
  }
  for (auto& communicator : all) {
    if (communicator->launch.joinable()) communicator->launch.join();
  }
}

void FakeNccl::FailCall(int k, NcclResult result) {
  const MutexLock lock(world_->mutex);
  world_->fail_in = k;
  world_->failure = result;
}
bool FakeNccl::FailCallIsDue() const {
  const MutexLock lock(world_->mutex);
  return world_->fail_in > 0;
}
void FakeNccl::DelayLaunches(absl::Duration delay) {
  const MutexLock lock(world_->mutex);
  world_->delay = delay;
}
void FakeNccl::HangOnDevice(bool hang) {
  const MutexLock lock(world_->mutex);
  world_->hang = hang;
}
void FakeNccl::BreakRank(int rank, NcclResult state) {
  const MutexLock lock(world_->mutex);
  for (auto& communicator : world_->communicators) {
    if (communicator->ended) continue;
    communicator->clique->broken = true;
    if (communicator->rank == rank) communicator->state = state;
  }
}
int FakeNccl::live() const {
  const MutexLock lock(world_->mutex);
  int live = 0;
  for (auto& communicator : world_->communicators) live += communicator->ended ? 0 : 1;
  return live;
}
int FakeNccl::made() const {
  const MutexLock lock(world_->mutex);
  return static_cast<int>(world_->communicators.size());
}
int FakeNccl::aborted() const {
  const MutexLock lock(world_->mutex);
  return world_->aborted;
}
int FakeNccl::cut_short() const {
  const MutexLock lock(world_->mutex);
  return world_->cut_short;
}
std::vector<std::string> FakeNccl::misuse() const {
  const MutexLock lock(world_->mutex);
  return world_->misuse;
}

NcclResult FakeNccl::GetUniqueId(NcclId& id) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails()) return world_->failure;
  ++world_->ids;
  std::memcpy(id.bytes.data(), &world_->ids, sizeof(world_->ids));
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommInitRank(NcclComm*& comm, int ranks, const NcclId& id, int rank, Device& device) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails()) return world_->failure;
  Group& group = world_->Mine();
  if (group.depth == 0 && ranks > 1) return world_->Misuse("ranks are made without a group: the first waits for ever");
  if (!group.operations.empty()) return world_->Misuse("an initialisation in the group of a collective");
  uint32_t number;
  std::memcpy(&number, id.bytes.data(), sizeof(number));
  auto& clique = world_->cliques[number];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->ranks = ranks;
  for (const auto& [other, card] : clique->cards) {
    if (other == rank || card == device.physical_id()) return world_->Misuse("two ranks on one GPU, or twice one rank");
  }
  clique->cards[rank] = device.physical_id();
  world_->communicators.push_back(std::make_shared<Communicator>());
  Communicator& made = *world_->communicators.back();
  made.clique = clique;
  made.rank = rank;
  group.joining.insert(&made);
  comm = reinterpret_cast<NcclComm*>(&made);
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::GroupStart() {
  const MutexLock lock(world_->mutex);
  if (world_->Fails()) return world_->failure;
  ++world_->Mine().depth;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::GroupEnd() { return EndGroup(true); }

NcclResult FakeNccl::EndGroup(bool counts) {
  Group group;
  absl::Duration delay;
  std::vector<std::thread> before;
  {
    const MutexLock lock(world_->mutex);
    Group& mine = world_->Mine();
    if (mine.depth == 0) return world_->Misuse("the end of a group without a start");
    if (--mine.depth > 0) return NcclResult::kSuccess;
    group = std::exchange(mine, {});
    if (counts && world_->Fails()) group.error = world_->failure;
    if (group.error != NcclResult::kSuccess) {
      for (Communicator* at : group.joining) at->state = group.error;
      for (auto& [at, operations] : group.operations) at->state = group.error;
      return group.error;
    }
    delay = world_->delay;
    for (auto& [at, operations] : group.operations) {
      at->state = NcclResult::kInProgress;
      before.push_back(std::exchange(at->launch, {}));
    }
  }
  for (std::thread& thread : before) {
    if (thread.joinable()) thread.join();
  }
  for (Communicator* at : group.joining) {
    at->launch = std::thread([world = world_, at, delay] {
      const MutexLock lock(world->mutex);
      world->mutex.AwaitUntil(absl::Now() + delay, [&] { return at->aborted; });
      world->mutex.Await(
          [&] { return at->aborted || static_cast<int>(at->clique->cards.size()) == at->clique->ranks; });
      if (at->state == NcclResult::kInProgress && !at->aborted) at->state = NcclResult::kSuccess;
      world->mutex.NotifyAll();
    });
  }
  for (auto& entry : group.operations) {
    Communicator* const at = entry.first;
    at->launch = std::thread([world = world_, at, delay, operations = entry.second] {
      const MutexLock lock(world->mutex);
      world->mutex.AwaitUntil(absl::Now() + delay, [&] { return at->aborted; });
      if (at->aborted) return;
      for (const Operation& operation : operations) {
        ++at->under_way;
        EnqueueOnFakeGpu(*operation.stream, [world, at, number = at->next++, operation] {
          world->Meet(*at, number, operation);
          return absl::OkStatus();
        });
      }
      if (at->state == NcclResult::kInProgress) at->state = NcclResult::kSuccess;
    });
  }
  return group.joining.empty() && group.operations.empty() ? NcclResult::kSuccess : NcclResult::kInProgress;
}

NcclResult FakeNccl::Give(NcclComm& comm, bool broadcast, const void* send, void* receive, int64_t elements,
                          DType dtype, int root, Stream& stream) {
  {
    const MutexLock lock(world_->mutex);
    const NcclResult added =
        world_->Add(Real(comm), {broadcast, send, receive, elements, broadcast ? DType::kUInt8 : dtype, root, &stream});
    if (added != NcclResult::kInProgress) return added;
  }
  return EndGroup(false);
}

NcclResult FakeNccl::AllReduceSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                                  Stream& stream) {
  return Give(comm, false, send, receive, elements, dtype, 0, stream);
}

NcclResult FakeNccl::Broadcast(const void* send, void* receive, size_t bytes, int root, NcclComm& comm,
                               Stream& stream) {
  return Give(comm, true, send, receive, static_cast<int64_t>(bytes), DType::kUInt8, root, stream);
}

NcclResult FakeNccl::CommGetAsyncError(NcclComm& comm, NcclResult& state) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails()) return world_->failure;
  if (Real(comm).ended) return world_->Misuse("a question to a communicator that has ended");
  state = Real(comm).state;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommFinalize(NcclComm& comm) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails()) return world_->failure;
  Communicator& at = Real(comm);
  if (at.ended || at.finalized) return world_->Misuse("the end of a communicator that has ended");
  if (at.state != NcclResult::kSuccess) return NcclResult::kInvalidArgument;
  at.finalized = true;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommDestroy(NcclComm& comm) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails()) return world_->failure;
  Communicator& at = Real(comm);
  if (at.ended || !at.finalized) return world_->Misuse("a communicator is destroyed twice, or before it is finalized");
  world_->mutex.Await([&] { return at.under_way == 0; });
  at.ended = true;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommAbort(NcclComm& comm) {
  std::thread launch;
  {
    const MutexLock lock(world_->mutex);
    Communicator& at = Real(comm);
    if (at.ended) return world_->Misuse("a communicator is aborted after its end");
    at.ended = at.aborted = true;
    at.clique->broken = true;  // nothing that is not done is done any more
    ++world_->aborted;
    launch = std::exchange(at.launch, {});
    world_->mutex.NotifyAll();
  }
  if (launch.joinable()) launch.join();
  return NcclResult::kSuccess;
}

std::string FakeNccl::Describe(NcclResult result, NcclComm* comm) {
  if (comm != nullptr) {
    const MutexLock lock(world_->mutex);
    if (Real(*comm).ended) world_->Misuse("a question to a communicator that has ended");
  }
  return absl::StrCat("fake error ", static_cast<int>(result));
}

}  // namespace belfry
