// The checker of plans, against plans of training steps that are damaged at random. Whether a damage matters is found
// by running the streams in random orders, on a memory that holds the writers of bytes instead of numbers.
#include "framework/compiler/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "optim/adam.h"
#include "optim/descent.h"
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/main/seed.h"
#include "tests/models/towers/trajectory_fixture.h"

namespace belfry::models {
namespace {

using testing::HasSubstr;
using Kind = Instruction::Kind;

// One execution of a plan.
class Execution {
 public:
  // Hashes of the bytes that each node read, by node and input, and of the fetches, by -1 and number.
  using Reads = std::map<std::pair<int, int>, size_t>;

  Execution(const Plan& plan, uint32_t seed) : plan_(plan), nodes_(plan.program.nodes), random_(seed) {}

  // Nothing if the streams wait for each other for ever, or a kernel's memory changed while it ran.
  std::optional<Reads> Run() {
    for (int i = 0; i < Count(nodes_); ++i) {
      if (nodes_[i].op->kind != OpKind::kPlaceholder) continue;
      Fill({i, 0}, [&](size_t at) { return Id(i, 0, at); });
    }
    next_.assign(plan_.streams.size(), 0);
    running_.assign(plan_.streams.size(), false);
    recorded_.assign(plan_.events, false);
    while (!Done()) {
      std::vector<int> ready;
      for (int s = 0; s < Count(next_); ++s) {
        if (CanMove(s)) ready.push_back(s);
      }
      if (ready.empty()) return std::nullopt;
      Move(ready[std::uniform_int_distribution<size_t>(0, ready.size() - 1)(random_)]);
      if (disturbed_) return std::nullopt;
    }
    for (int k = 0; k < Count(plan_.program.fetches); ++k) reads_[{-1, k}] = Hash(plan_.program.fetches[k]);
    return reads_;
  }

 private:
  static constexpr size_t kGrain = 4;  // bytes
  using Space = std::pair<int, int>;

  template <class T>
  static int Count(const T& list) {
    return static_cast<int>(list.size());
  }
  static size_t Id(int node, int output, size_t at) {
    return (static_cast<size_t>(node) + 1) << 40 | static_cast<size_t>(output) << 32 | at;
  }
  static size_t Busy(int node) { return Id(node, 255, 0); }

  // Calls `see` on each grain of a value: its place in memory, and its number.
  template <class F>
  void ForGrains(Value value, const F& see) {
    const Storage& storage = plan_.memory.outputs[value.node][value.index];
    if (storage.kind != Storage::Kind::kArena && storage.kind != Storage::Kind::kVariable) return;
    const bool arena = storage.kind == Storage::Kind::kArena;
    auto& memory = memory_[arena ? Space(nodes_[storage.node].device, -1) : Space(-1, storage.node)];
    const size_t bytes = plan_.program.spec(value).bytes();
    for (size_t at = 0; at < bytes; at += kGrain) see(memory[(storage.offset + at) / kGrain], at);
  }
  template <class F>
  void ForWorkspace(int node, const F& see) {
    auto& memory = memory_[{nodes_[node].device, -1}];
    for (size_t at = 0; at < plan_.workspace_bytes[node]; at += kGrain) {
      see(memory[(plan_.memory.workspace_offset[node] + at) / kGrain]);
    }
  }
  template <class F>
  void Fill(Value value, const F& content) {
    ForGrains(value, [&](size_t& grain, size_t at) { grain = content(at); });
  }
  size_t Hash(Value value) {
    size_t hash = 0;
    ForGrains(value, [&](size_t grain, size_t) { hash = hash * 0x9E3779B97F4A7C15 + grain; });
    return hash;
  }
  // The values that the node writes: its own outputs, and the variables that it updates.
  std::vector<std::pair<Value, int>> Written(int node) const {
    std::vector<std::pair<Value, int>> values;
    const ProgramNode& of = nodes_[node];
    for (int k = 0; k < Count(of.inputs); ++k) {
      if (InputArg(of, k).ref) values.push_back({of.inputs[k], 200 + k % 50});
    }
    for (int k = 0; k < Count(of.outputs); ++k) {
      const bool of_variable = of.op->kind == OpKind::kKernel && of.body.empty() && of.op->output_arg(k).ref;
      if (!of_variable) values.push_back({{node, k}, k % 200});
    }
    return values;
  }

  bool Done() const {
    for (int s = 0; s < Count(next_); ++s) {
      if (next_[s] < plan_.streams[s].instructions.size()) return false;
    }
    return true;
  }
  bool CanMove(int s) {
    if (next_[s] == plan_.streams[s].instructions.size()) return false;
    const Instruction& at = plan_.streams[s].instructions[next_[s]];
    if (at.kind == Kind::kWait) return recorded_[at.index];
    if (at.kind != Kind::kCollective) return true;
    const int group = nodes_[at.index].collective;
    arrived_[group].insert(at.index);
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const ProgramNode& node) {
      return node.op->kind != OpKind::kAllReduce || node.collective != group ||
             arrived_[group].count(static_cast<int>(&node - nodes_.data())) > 0;
    });
  }
  void Move(int s) {
    const Instruction& at = plan_.streams[s].instructions[next_[s]];
    if (at.kind == Kind::kRecord) recorded_[at.index] = true;
    if (at.kind == Kind::kRun || at.kind == Kind::kCollective) {
      if (!running_[s]) {
        running_[s] = true;
        return Begin(at.index);
      }
      running_[s] = false;
      End(at.index);
    }
    ++next_[s];
  }
  void Begin(int node) {
    for (int k = 0; k < Count(nodes_[node].inputs); ++k) {
      const ArgDef& arg = InputArg(nodes_[node], k);
      if (arg.shape_only || arg.overwrites) continue;
      reads_[{node, k}] = Hash(nodes_[node].inputs[k]);
      ForGrains(nodes_[node].inputs[k], [&](size_t& grain, size_t) { seen_[node].push_back({&grain, grain}); });
    }
    ForWorkspace(node, [&](size_t& grain) { grain = Busy(node); });
    for (const auto& [value, number] : Written(node)) Fill(value, [&](size_t) { return Busy(node); });
  }
  // An operand that an output is allowed to lie on is as busy as that.
  void End(int node) {
    const auto check = [&](size_t grain) { disturbed_ |= grain != Busy(node); };
    ForWorkspace(node, check);
    for (const auto& [value, number] : Written(node)) ForGrains(value, [&](size_t grain, size_t) { check(grain); });
    std::set<const size_t*> own;
    const auto own_place = [&](const size_t& grain, size_t) { own.insert(&grain); };
    for (const auto& [input, output] : Allowed(node)) ForGrains({node, output}, own_place);
    for (int k = 0; k < Count(nodes_[node].inputs); ++k) {
      if (InputArg(nodes_[node], k).ref) ForGrains(nodes_[node].inputs[k], own_place);
    }
    for (const auto& [grain, content] : seen_[node]) {
      disturbed_ |= *grain != content && !(*grain == Busy(node) && own.count(grain) > 0);
    }
    seen_.erase(node);
    for (const auto& [value, number] : Written(node)) {
      Fill(value, [node = node, number = number](size_t at) { return Id(node, number, at); });
    }
  }
  std::vector<std::pair<int, int>> Allowed(int node) const {
    const ProgramNode& of = nodes_[node];
    std::vector<std::pair<int, int>> pairs;
    if (of.op->kind == OpKind::kAllReduce) {
      for (int k = 0; k < Count(of.outputs); ++k) pairs.push_back({0, k});
    } else if (plan_.in_place[node] != 0) {
      pairs = InPlace(of);
    }
    pairs.erase(
        std::remove_if(pairs.begin(), pairs.end(), [&](auto& pair) { return pair.second >= Count(of.outputs); }),
        pairs.end());
    return pairs;
  }

  const Plan& plan_;
  const std::vector<ProgramNode>& nodes_;
  std::mt19937 random_;
  std::map<Space, std::map<size_t, size_t>> memory_;  // what each grain holds; 0: what was there before the step
  std::map<int, std::vector<std::pair<const size_t*, size_t>>> seen_;  // by running node: what its operands held
  std::map<int, std::set<int>> arrived_;
  std::vector<size_t> next_;
  std::vector<bool> running_, recorded_;
  bool disturbed_ = false;
  Reads reads_;
};

// True if some order of execution lets a node read other bytes than those of the plan itself.
bool Matters(const Plan& damaged, const Execution::Reads& expected) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    const auto reads = Execution(damaged, seed).Run();
    if (!reads.has_value() || *reads != expected) return true;
  }
  return false;
}

using Random = std::mt19937;

template <class T>
T& Any(std::vector<T>& list, Random& random) {
  return list[std::uniform_int_distribution<size_t>(0, list.size() - 1)(random)];
}

// The instructions of one kind, by stream and position.
std::vector<std::pair<int, int>> InstructionsOf(const Plan& plan, Kind kind) {
  std::vector<std::pair<int, int>> found;
  for (int s = 0; s < static_cast<int>(plan.streams.size()); ++s) {
    const auto& instructions = plan.streams[s].instructions;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      if (instructions[i].kind == kind) found.push_back({s, i});
    }
  }
  return found;
}

std::vector<Storage*> Arenas(Plan& plan) {
  std::vector<Storage*> places;
  for (auto& outputs : plan.memory.outputs) {
    for (Storage& storage : outputs) {
      if (storage.kind == Storage::Kind::kArena) places.push_back(&storage);
    }
  }
  return places;
}

// Each returns false if the plan has nothing of the kind.
struct Damage {
  const char* name;
  bool (*apply)(Plan& plan, Random& random);
};
bool Drop(Plan& plan, Random& random, Kind kind) {
  auto found = InstructionsOf(plan, kind);
  if (found.empty()) return false;
  const auto [s, i] = Any(found, random);
  plan.streams[s].instructions.erase(plan.streams[s].instructions.begin() + i);
  return true;
}
bool Exchange(Plan& plan, Random& random, Kind kind) {
  auto found = InstructionsOf(plan, kind);
  if (found.empty()) return false;
  const auto [s, i] = Any(found, random);
  auto& instructions = plan.streams[s].instructions;
  if (i + 1 == static_cast<int>(instructions.size())) return false;
  std::swap(instructions[i], instructions[i + 1]);
  return true;
}
const Damage kDamages[] = {
    {"drop a wait", [](Plan& plan, Random& random) { return Drop(plan, random, Kind::kWait); }},
    {"drop a record", [](Plan& plan, Random& random) { return Drop(plan, random, Kind::kRecord); }},
    {"drop a node", [](Plan& plan, Random& random) { return Drop(plan, random, Kind::kRun); }},
    {"move a wait back", [](Plan& plan, Random& random) { return Exchange(plan, random, Kind::kWait); }},
    {"move a node back", [](Plan& plan, Random& random) { return Exchange(plan, random, Kind::kRun); }},
    {"swap slots",
     [](Plan& plan, Random& random) {
       auto places = Arenas(plan);
       if (places.size() < 2) return false;
       std::swap(Any(places, random)->offset, Any(places, random)->offset);
       return true;
     }},
    {"shift a slot",
     [](Plan& plan, Random& random) {
       auto places = Arenas(plan);
       if (places.empty()) return false;
       size_t& offset = Any(places, random)->offset;
       offset = offset >= 64 && random() % 2 == 0 ? offset - 64 : offset + 64;
       return true;
     }},
    {"shift a workspace",
     [](Plan& plan, Random& random) {
       std::vector<int> nodes;
       for (int i = 0; i < static_cast<int>(plan.workspace_bytes.size()); ++i) {
         if (plan.workspace_bytes[i] > 0) nodes.push_back(i);
       }
       if (nodes.empty()) return false;
       size_t& offset = plan.memory.workspace_offset[Any(nodes, random)];
       offset = offset >= 64 && random() % 2 == 0 ? offset - 64 : offset + 64;
       return true;
     }},
    {"forbid work in place",
     [](Plan& plan, Random& random) {
       Any(plan.in_place, random) = 0;
       return true;
     }},
};

struct Step {
  const char* name;
  const char* devices;  // "fake" for two fake GPUs
  ReplicateOptions options;
};

// The plan of a step of Trajectory.
class PlannedStep {
 public:
  explicit PlannedStep(const Step& step) {
    const bool fake = std::string(step.devices) == "fake";
    status_ = run_.Open(fake ? OpenFakeGpus(2) : DeviceSet::Open(step.devices, {.cpu_threads = 1}), optim::Adam(),
                        step.options);
    std::vector<FeedSpec> feeds;
    for (const TrainTower& tower : run_.step().towers) {
      feeds.push_back({tower.batch["x"], {3, 3}});
      feeds.push_back({tower.batch["y"], {3, 1}});
    }
    if (status_.ok()) prepared_ = run_.session().Prepare(feeds, {run_.step().loss}, {run_.step().update});
  }
  absl::Status status() const { return status_.ok() ? prepared_.status() : status_; }
  const Plan& plan() const { return (*prepared_)->plan(); }

 private:
  Trajectory run_;
  absl::Status status_;
  absl::StatusOr<std::unique_ptr<PreparedStep>> prepared_;
};

const Step kThreeTowers = {"three towers", "cpu:3", {.bucket_bytes = 16}};

// Two of the plan's own executions agree, and no harmful damage passes.
TEST(VerifyPlan, FindsWhatDamagesPlans) {
  const Step steps[] = {{"one tower", "cpu:1", {}},
                        kThreeTowers,
                        {"parameters on one device", "cpu:2", {.variable_update = VariableUpdate::kParameterDevice}},
                        {"sharded optimizer", "cpu:2", {.shard_optimizer = true}},
                        {"fake GPUs", "fake", {.variable_update = VariableUpdate::kParameterDevice}}};
  std::map<std::string, std::map<std::string, int>> counts;  // by damage, then by outcome
  Random random(TestSeed());
  for (const Step& step : steps) {
    const PlannedStep planned(step);
    ASSERT_TRUE(planned.status().ok()) << step.name << ": " << planned.status();
    const Plan& plan = planned.plan();
    const auto certificate = VerifyPlan(plan);
    ASSERT_TRUE(certificate.ok()) << step.name << ": " << certificate.status();
    EXPECT_GT(certificate->reads, 20) << certificate->ToText();
    const auto expected = Execution(plan, 0).Run();
    ASSERT_TRUE(expected.has_value());
    ASSERT_FALSE(Matters(plan, *expected)) << step.name;
    for (const Damage& damage : kDamages) {
      for (int turn = 0; turn < 30; ++turn) {
        Plan damaged = plan;
        if (!damage.apply(damaged, random)) break;
        const bool found = !VerifyPlan(damaged).ok();
        const bool matters = Matters(damaged, *expected);
        ++counts[damage.name][found ? (matters ? "found" : "found, not met by chance") : "harmless"];
        EXPECT_TRUE(found || !matters) << step.name << ": " << damage.name;
      }
    }
  }
  // A node that may not work in place, and does not, is no flaw.
  EXPECT_GT(counts["forbid work in place"]["harmless"], 0);
  for (const auto& [damage, outcomes] : counts) {
    std::string text;
    for (const auto& [outcome, count] : outcomes) absl::StrAppend(&text, ", ", count, " ", outcome);
    std::printf("%s%s\n", damage.c_str(), text.c_str());
  }
}

ProgramNode& FirstCollective(Plan& plan) {
  return *std::find_if(plan.program.nodes.begin(), plan.program.nodes.end(),
                       [](const ProgramNode& node) { return node.op->kind == OpKind::kAllReduce; });
}

// Damages of what executions do not show.
TEST(VerifyPlan, FindsTowersThatAreLeftOutAndListsThatAreIncomplete) {
  const PlannedStep planned(kThreeTowers);
  ASSERT_TRUE(planned.status().ok()) << planned.status();
  const auto flaw = [&](void (*damage)(Plan&)) {
    Plan damaged = planned.plan();
    damage(damaged);
    return std::string(VerifyPlan(damaged).status().message());
  };
  EXPECT_THAT(flaw([](Plan& plan) { FirstCollective(plan).ranks[0] = 2 - FirstCollective(plan).ranks[0]; }),
              HasSubstr("there twice"));
  EXPECT_THAT(flaw([](Plan& plan) { FirstCollective(plan).ranks[0] = 3; }), HasSubstr("is rank 3 of 3"));
  EXPECT_THAT(flaw([](Plan& plan) { FirstCollective(plan).ranks.clear(); }), HasSubstr("its ranks do not share"));
  EXPECT_THAT(flaw([](Plan& plan) { plan.written.pop_back(); }), HasSubstr("is not in the list of those"));
  EXPECT_THAT(flaw([](Plan& plan) { plan.reads_before_writing.clear(); }), HasSubstr("variables that the step needs"));
  EXPECT_THAT(flaw([](Plan& plan) { plan.memory.arena_bytes[1] = 64; }), HasSubstr("of 64"));
  EXPECT_EQ(flaw([](Plan&) {}), "");
}

}  // namespace
}  // namespace belfry::models
