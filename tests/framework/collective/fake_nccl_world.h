// The parts of the test double of NCCL. Internal to it.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/half.h"
#include "framework/base/mutex.h"
#include "framework/base/steady_time.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/framework/collective/fake_nccl.h"

namespace belfry {
namespace fake_nccl {

enum class Kind { kAllReduce, kBroadcast, kReduceScatter, kAllGather };

struct Operation {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  int64_t elements = 0;
  DType dtype = DType::kUInt8;
  int root = 0;
  Stream* stream = nullptr;

  bool Matches(const Operation& other) const {
    return kind == other.kind && elements == other.elements && dtype == other.dtype && root == other.root;
  }
};

template <class T>
void AddUp(const std::vector<Operation>& ranks) {
  const int64_t n = ranks[0].elements;
  const bool scatter = ranks[0].kind == Kind::kReduceScatter;
  for (int64_t i = 0; i < (scatter ? n * static_cast<int64_t>(ranks.size()) : n); ++i) {
    T sum = static_cast<const T*>(ranks[0].send)[i];
    for (size_t r = 1; r < ranks.size(); ++r) sum = static_cast<T>(sum + static_cast<const T*>(ranks[r].send)[i]);
    if (scatter) {
      static_cast<T*>(ranks[i / n].receive)[i % n] = sum;
    } else {
      for (const Operation& rank : ranks) static_cast<T*>(rank.receive)[i] = sum;
    }
  }
}

inline void Compute(const std::vector<Operation>& ranks) {
  const auto bytes = static_cast<size_t>(ranks[0].elements) * SizeOf(ranks[0].dtype);
  if (bytes == 0) return;
  if (ranks[0].kind == Kind::kBroadcast) {
    for (const Operation& rank : ranks) std::memmove(rank.receive, ranks[rank.root].send, bytes);
    return;
  }
  if (ranks[0].kind == Kind::kAllGather) {
    for (const Operation& rank : ranks) {
      for (size_t r = 0; r < ranks.size(); ++r) {
        std::memmove(static_cast<char*>(rank.receive) + r * bytes, ranks[r].send, bytes);
      }
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

// A point at which the ranks of a clique meet on their streams.
struct Place {
  std::vector<Operation> ranks;
  std::set<int> arrived;
  bool done = false, hangs = false;
};

struct Clique {
  int ranks = 0;
  std::map<int, std::pair<const void*, int>> cards;  // by rank that has joined: process and card
  int finalized = 0;                                 // ranks
  std::map<uint64_t, Place> places;
  std::map<std::pair<std::thread::id, uint64_t>, int>
      ungrouped;  // the rank to which a thread gave an operation without a group
  bool broken = false;
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  std::shared_ptr<FakeNccl::Process> process;
  int rank = 0;
  NcclResult state = NcclResult::kInProgress;
  bool blocking = false, ended = false, aborted = false, finalized = false;
  uint64_t next = 0;  // place
  int under_way = 0;  // operations on streams
  std::thread launch;
  std::vector<std::weak_ptr<const int>> captured;  // for each capture that holds its operations, a token of it

  bool IsCaptured() const {
    for (const auto& part : captured) {
      if (!part.expired()) return true;
    }
    return false;
  }
};

struct Group {
  int depth = 0;
  NcclResult error = NcclResult::kSuccess;  // of a call in the group; nothing of the group is then launched
  std::set<Communicator*> joining, ending;
  std::map<Communicator*, std::vector<Operation>> operations;
};

inline Communicator& Real(NcclComm& comm) { return reinterpret_cast<Communicator&>(comm); }

}  // namespace fake_nccl

// Guarded by World::mutex.
struct FakeNccl::Process {
  int fail_in = 0;
  NcclResult failure = NcclResult::kInternalError;
  absl::Duration delay;
  bool hang = false;
};

struct FakeNccl::World {
  using Clique = fake_nccl::Clique;
  using Communicator = fake_nccl::Communicator;
  using Group = fake_nccl::Group;
  using Operation = fake_nccl::Operation;
  using Place = fake_nccl::Place;

  Mutex mutex;
  uint32_t ids = 0;
  int aborted = 0, cut_short = 0;
  std::map<uint32_t, std::shared_ptr<Clique>> cliques;
  std::vector<std::shared_ptr<Communicator>> communicators;  // never erased, so that a use after the end is noticed
  std::map<std::thread::id, Group> groups;
  std::vector<std::string> misuse;

  bool Fails(Process& process) {
    if (process.fail_in == 0 || --process.fail_in > 0) return false;
    if (Mine().depth > 0) Mine().error = process.failure;
    return true;
  }
  NcclResult Misuse(std::string what) {
    misuse.push_back(std::move(what));
    return NcclResult::kInvalidUsage;
  }
  Group& Mine() { return groups[std::this_thread::get_id()]; }

  NcclResult Add(Communicator& at, const Operation& operation) {
    if (Fails(*at.process)) return at.process->failure;
    if (at.ended) return Misuse("a collective on a communicator that has ended");
    if (at.state != NcclResult::kSuccess) return NcclResult::kInvalidArgument;
    Group& group = Mine();
    if (!group.joining.empty() || !group.ending.empty()) {
      return Misuse("a collective in the group of an initialisation or an end");
    }
    for (const auto& [thread, other] : groups) {
      if (&other != &group && other.operations.count(&at) > 0) return Misuse("two threads use one communicator");
    }
    group.operations[&at].push_back(operation);
    if (group.depth > 0) return NcclResult::kSuccess;
    ++group.depth;  // the call forms a group by itself
    const auto [found, inserted] = at.clique->ungrouped.try_emplace({std::this_thread::get_id(), at.next}, at.rank);
    if (!inserted && found->second != at.rank) {
      group = {};
      return Misuse("one thread serves two ranks without a group: the first call waits for ever");
    }
    return NcclResult::kInProgress;
  }

  // A rank's work on its stream.
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
    place.hangs = place.hangs || at.process->hang;
    if (all && !place.hangs && !clique.broken && !at.aborted) {
      Compute(place.ranks);
      place.done = true;
      mutex.NotifyAll();
    }
    mutex.Await([&] { return place.done || at.aborted; });
    if (!place.done) ++cut_short;
    --at.under_way;
    mutex.NotifyAll();
  }

  // The work of all ranks together, repeated at each replay; the replay runs on a single stream.
  void Replay(const std::vector<std::pair<Communicator*, Operation>>& ranks) {
    const MutexLock lock(mutex);
    std::vector<Operation> operations(ranks.size());
    bool aborted = false, broken = false, hang = false;
    for (const auto& [at, operation] : ranks) {
      if (at->ended && !at->aborted) Misuse("a capture is replayed after its communicators have ended");
      operations[at->rank] = operation;
      aborted = aborted || at->aborted;
      broken = broken || at->clique->broken;
      hang = hang || at->process->hang;
      ++at->under_way;
    }
    if (!hang && !broken && !aborted) {
      Compute(operations);
    } else {
      mutex.Await([&] {
        bool all = true;
        for (const auto& entry : ranks) all = all && entry.first->aborted;
        return all;
      });
      cut_short += static_cast<int>(ranks.size());
    }
    for (const auto& entry : ranks) --entry.first->under_way;
    mutex.NotifyAll();
  }

  // Does the work of NCCL's thread for a group whose streams are being captured. `self` points to this object.
  void Capture(const std::shared_ptr<World>& self, const Group& group, absl::Duration delay, const void* capture) {
    std::vector<std::function<absl::Status()>> work;
    {
      const MutexLock lock(mutex);
      const auto aborted = [&] { return group.operations.begin()->first->aborted; };
      mutex.AwaitUntil(SteadyNow() + delay, aborted);
      if (aborted()) return;
      const size_t operations = group.operations.begin()->second.size();
      for (size_t i = 0; i < operations; ++i) {
        std::vector<std::pair<Communicator*, Operation>> ranks;
        for (const auto& [at, list] : group.operations) ranks.emplace_back(at, list[i]);
        const auto part = std::make_shared<const int>(0);
        for (const auto& [at, operation] : ranks) at->captured.push_back(part);
        work.push_back([self, ranks, part] {
          self->Replay(ranks);
          return absl::OkStatus();
        });
      }
      for (const auto& [at, list] : group.operations) {
        if (CaptureOfFakeGpu(*list[0].stream) == capture) continue;
        Misuse("a capture ended before its group was launched");
        at->state = NcclResult::kInternalError;
        mutex.NotifyAll();
        return;
      }
    }
    std::vector<Stream*> streams;
    for (const auto& [at, list] : group.operations) streams.push_back(list[0].stream);
    for (auto& one : work) CaptureTogether(streams, std::move(one));
    const MutexLock lock(mutex);
    for (const auto& [at, list] : group.operations) {
      if (at->state == NcclResult::kInProgress) at->state = NcclResult::kSuccess;
    }
    mutex.NotifyAll();
  }

  // The result of a group: that of its launch, for communicators that block.
  NcclResult AwaitLaunch(const Group& group) {
    std::set<Communicator*> all = group.joining;
    for (const auto& [at, operations] : group.operations) all.insert(at);
    NcclResult result = NcclResult::kSuccess;
    const MutexLock lock(mutex);
    for (Communicator* const at : all) {
      if (at->blocking) mutex.Await([&] { return at->state != NcclResult::kInProgress || at->aborted; });
      if (result == NcclResult::kSuccess) result = at->blocking ? at->state : NcclResult::kInProgress;
    }
    return result;
  }

  // The end of an abort. The last communicator of a clique waits until no capture holds an operation of it.
  void AwaitEnd(Communicator& at) {
    std::thread launch;
    {
      const MutexLock lock(mutex);
      launch = std::exchange(at.launch, {});
    }
    if (launch.joinable()) launch.join();
    const absl::Time deadline = SteadyNow() + absl::Seconds(10);
    while (true) {
      {
        const MutexLock lock(mutex);
        bool last = true, captured = false;
        for (auto& other : communicators) {
          if (other->clique != at.clique) continue;
          last = last && other->ended;
          captured = captured || other->IsCaptured();
        }
        if (!last || !captured) return;
        if (SteadyNow() > deadline) {
          Misuse("the end of a communicator that is in a capture: it waits for ever");
          return;
        }
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
};

}  // namespace belfry
