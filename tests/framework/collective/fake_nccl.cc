#include "tests/framework/collective/fake_nccl.h"

#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/steady_time.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_nccl_world.h"

namespace belfry {

using fake_nccl::Clique;
using fake_nccl::Communicator;
using fake_nccl::Group;
using fake_nccl::Kind;
using fake_nccl::Operation;
using fake_nccl::Real;

namespace {

// False if a group is captured in part, or not for all ranks. `capture` becomes null if the group is not captured.
bool CheckCapture(const Group& group, FakeNccl::World& world, const void*& capture) {
  capture = nullptr;
  bool first = true, same = true;
  for (const auto& [at, operations] : group.operations) {
    for (const Operation& operation : operations) {
      const void* const of = CaptureOfFakeGpu(*operation.stream);
      if (std::exchange(first, false)) capture = of;
      same = same && of == capture;
    }
  }
  if (!same) {
    world.Misuse("a group is captured in part");
    return false;
  }
  if (capture == nullptr) return true;
  const auto& [at, operations] = *group.operations.begin();
  bool whole = static_cast<int>(group.operations.size()) == at->clique->ranks;
  for (const auto& [other, others] : group.operations) {
    whole = whole && other->clique == at->clique && others.size() == operations.size();
  }
  if (!whole) world.Misuse("a collective is captured for some of its ranks only");
  return whole;
}

}  // namespace

FakeNccl::FakeNccl() : FakeNccl(std::make_shared<World>()) {}
FakeNccl::FakeNccl(std::shared_ptr<World> world) : world_(std::move(world)), process_(std::make_shared<Process>()) {}

std::shared_ptr<FakeNccl> FakeNccl::InAnotherProcess() const { return std::shared_ptr<FakeNccl>(new FakeNccl(world_)); }

FakeNccl::~FakeNccl() {
  std::vector<std::shared_ptr<Communicator>> all;
  {
    const MutexLock lock(world_->mutex);
    for (auto& communicator : world_->communicators) {
      if (communicator->process != process_) continue;
      communicator->aborted = true;
      all.push_back(communicator);
    }
    world_->mutex.NotifyAll();
  }
  for (auto& communicator : all) {
    if (communicator->launch.joinable()) communicator->launch.join();
  }
}

void FakeNccl::FailCall(int k, NcclResult result) {
  const MutexLock lock(world_->mutex);
  process_->fail_in = k;
  process_->failure = result;
}
bool FakeNccl::FailCallIsDue() const {
  const MutexLock lock(world_->mutex);
  return process_->fail_in > 0;
}
void FakeNccl::DelayLaunches(absl::Duration delay) {
  const MutexLock lock(world_->mutex);
  process_->delay = delay;
}
void FakeNccl::HangOnDevice(bool hang) {
  const MutexLock lock(world_->mutex);
  process_->hang = hang;
}
void FakeNccl::BreakRank(int rank, NcclResult state) {
  const MutexLock lock(world_->mutex);
  for (auto& communicator : world_->communicators) {
    if (communicator->ended) continue;
    communicator->clique->broken = true;
    if (communicator->rank == rank) communicator->state = state;
  }
}
int FakeNccl::ids() const {
  const MutexLock lock(world_->mutex);
  return static_cast<int>(world_->ids);
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
  if (world_->Fails(*process_)) return process_->failure;
  ++world_->ids;
  std::memcpy(id.bytes.data(), &world_->ids, sizeof(world_->ids));
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommInitRank(NcclComm*& comm, int ranks, const NcclId& id, int rank, Device& device,
                                  bool blocking) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails(*process_)) return process_->failure;
  Group& group = world_->Mine();
  if (group.depth == 0 && ranks > 1) return world_->Misuse("ranks are made without a group: the first waits for ever");
  if (!group.operations.empty()) return world_->Misuse("an initialisation in the group of a collective");
  uint32_t number;
  std::memcpy(&number, id.bytes.data(), sizeof(number));
  auto& clique = world_->cliques[number];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->ranks = ranks;
  const std::pair<const void*, int> card(process_.get(), device.physical_id());
  for (const auto& [other, taken] : clique->cards) {
    if (other == rank || taken == card) return world_->Misuse("two ranks on one GPU, or twice one rank");
  }
  clique->cards[rank] = card;
  world_->communicators.push_back(std::make_shared<Communicator>());
  Communicator& made = *world_->communicators.back();
  made.clique = clique;
  made.process = process_;
  made.rank = rank;
  made.blocking = blocking;
  group.joining.insert(&made);
  comm = reinterpret_cast<NcclComm*>(&made);
  return blocking ? NcclResult::kSuccess : NcclResult::kInProgress;
}

NcclResult FakeNccl::GroupStart() {
  const MutexLock lock(world_->mutex);
  if (world_->Fails(*process_)) return process_->failure;
  ++world_->Mine().depth;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::GroupEnd() { return EndGroup(true); }

NcclResult FakeNccl::EndGroup(bool counts) {
  Group group;
  absl::Duration delay;
  const void* capture = nullptr;
  std::vector<std::thread> before;
  {
    const MutexLock lock(world_->mutex);
    Group& mine = world_->Mine();
    if (mine.depth == 0) return world_->Misuse("the end of a group without a start");
    if (--mine.depth > 0) return NcclResult::kSuccess;
    group = std::exchange(mine, {});
    if (!group.ending.empty()) counts = false;  // these end whatever else goes wrong
    if (counts && world_->Fails(*process_)) group.error = process_->failure;
    if (group.error != NcclResult::kSuccess) {
      for (Communicator* at : group.joining) at->state = group.error;
      for (auto& [at, operations] : group.operations) at->state = group.error;
      return group.error;
    }
    delay = process_->delay;
    if (!CheckCapture(group, *world_, capture)) return NcclResult::kInvalidUsage;
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
      world->mutex.AwaitUntil(SteadyNow() + delay, [&] { return at->aborted; });
      world->mutex.Await(
          [&] { return at->aborted || static_cast<int>(at->clique->cards.size()) == at->clique->ranks; });
      if (at->state == NcclResult::kInProgress && !at->aborted) at->state = NcclResult::kSuccess;
      world->mutex.NotifyAll();
    });
  }
  for (Communicator* at : group.ending) world_->AwaitEnd(*at);
  if (capture != nullptr) {
    Communicator* const first = group.operations.begin()->first;
    first->launch =
        std::thread([world = world_, group, delay, capture] { world->Capture(world, group, delay, capture); });
    return world_->AwaitLaunch(group);
  }
  for (auto& entry : group.operations) {
    Communicator* const at = entry.first;
    at->launch = std::thread([world = world_, at, delay, operations = entry.second] {
      const MutexLock lock(world->mutex);
      world->mutex.AwaitUntil(SteadyNow() + delay, [&] { return at->aborted; });
      if (at->aborted) return;
      for (const Operation& operation : operations) {
        ++at->under_way;
        EnqueueOnFakeGpu(*operation.stream, [world, at, number = at->next++, operation] {
          world->Meet(*at, number, operation);
          return absl::OkStatus();
        });
      }
      if (at->state == NcclResult::kInProgress) at->state = NcclResult::kSuccess;
      world->mutex.NotifyAll();
    });
  }
  return world_->AwaitLaunch(group);
}

NcclResult FakeNccl::Give(NcclComm& comm, const Operation& operation) {
  {
    const MutexLock lock(world_->mutex);
    const NcclResult added = world_->Add(Real(comm), operation);
    if (added != NcclResult::kInProgress) return added;
  }
  return EndGroup(false);
}

NcclResult FakeNccl::AllReduceSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                                  Stream& stream) {
  return Give(comm, {Kind::kAllReduce, send, receive, elements, dtype, 0, &stream});
}

NcclResult FakeNccl::Broadcast(const void* send, void* receive, size_t bytes, int root, NcclComm& comm,
                               Stream& stream) {
  return Give(comm, {Kind::kBroadcast, send, receive, static_cast<int64_t>(bytes), DType::kUInt8, root, &stream});
}

NcclResult FakeNccl::ReduceScatterSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                                      Stream& stream) {
  return Give(comm, {Kind::kReduceScatter, send, receive, elements, dtype, 0, &stream});
}

NcclResult FakeNccl::AllGather(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                               Stream& stream) {
  return Give(comm, {Kind::kAllGather, send, receive, elements, dtype, 0, &stream});
}

NcclResult FakeNccl::CommGetAsyncError(NcclComm& comm, NcclResult& state) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails(*process_)) return process_->failure;
  if (Real(comm).ended) return world_->Misuse("a question to a communicator that has ended");
  state = Real(comm).state;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommFinalize(NcclComm& comm) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails(*process_)) return process_->failure;
  Communicator& at = Real(comm);
  if (at.ended || at.finalized) return world_->Misuse("the end of a communicator that has ended");
  if (at.IsCaptured()) return world_->Misuse("the end of a communicator that is in a capture: it waits for ever");
  if (at.state != NcclResult::kSuccess) return NcclResult::kInvalidArgument;
  at.finalized = true;
  at.state = NcclResult::kInProgress;
  if (++at.clique->finalized < at.clique->ranks) return NcclResult::kInProgress;
  for (auto& other : world_->communicators) {
    if (other->clique == at.clique && !other->ended) other->state = NcclResult::kSuccess;
  }
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::CommDestroy(NcclComm& comm) {
  const MutexLock lock(world_->mutex);
  if (world_->Fails(*process_)) return process_->failure;
  Communicator& at = Real(comm);
  if (at.ended || !at.finalized) return world_->Misuse("a communicator is destroyed twice, or before it is finalized");
  world_->mutex.Await([&] { return at.under_way == 0; });
  at.ended = true;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::CommAbort(NcclComm& comm) {
  Communicator& at = Real(comm);
  {
    const MutexLock lock(world_->mutex);
    if (at.ended) return world_->Misuse("a communicator is aborted after its end");
    at.ended = at.aborted = true;
    at.clique->broken = true;  // unfinished operations never finish
    ++world_->aborted;
    world_->mutex.NotifyAll();
    if (Group& group = world_->Mine(); group.depth > 0) {
      group.ending.insert(&at);
      return NcclResult::kSuccess;
    }
  }
  world_->AwaitEnd(at);
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
