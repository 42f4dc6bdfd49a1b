#include "tests/models/plans/mutations.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/compiler/verify/verify.h"
#include "tests/main/testing.h"

namespace belfry::models {
namespace {

using Random = std::mt19937;
using Kind = Instruction::Kind;

template <class T>
T& Any(std::vector<T>& list, Random& random) {
  return list[random() % list.size()];
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

bool Drop(Plan& plan, Random& random, Kind kind) {
  auto found = InstructionsOf(plan, kind);
  if (found.empty()) return false;
  const auto [s, i] = Any(found, random);
  plan.streams[s].instructions.erase(plan.streams[s].instructions.begin() + i);
  return true;
}
// Moves an instruction to another place of its stream, up to `distance` away.
bool Move(Plan& plan, Random& random, Kind kind, int distance) {
  auto found = InstructionsOf(plan, kind);
  if (found.empty()) return false;
  const auto [s, i] = Any(found, random);
  auto& instructions = plan.streams[s].instructions;
  const int by = 1 + static_cast<int>(random() % static_cast<uint32_t>(distance));
  const int to = std::clamp(random() % 2 == 0 ? i - by : i + by, 0, static_cast<int>(instructions.size()) - 1);
  if (to == i) return false;
  const Instruction moved = instructions[i];
  instructions.erase(instructions.begin() + i);
  instructions.insert(instructions.begin() + to, moved);
  return true;
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
bool Shift(size_t& offset, Random& random) {
  const size_t by = size_t{64} << random() % 6;
  offset = offset >= by && random() % 2 == 0 ? offset - by : offset + by;
  return true;
}
bool SwapSlots(Plan& plan, Random& random) {
  auto places = Arenas(plan);
  if (places.size() < 2) return false;
  std::swap(Any(places, random)->offset, Any(places, random)->offset);
  return true;
}
bool ShiftSlot(Plan& plan, Random& random) {
  auto places = Arenas(plan);
  return !places.empty() && Shift(Any(places, random)->offset, random);
}
bool ShiftWorkspace(Plan& plan, Random& random) {
  std::vector<int> nodes;
  for (int i = 0; i < static_cast<int>(plan.workspace_bytes.size()); ++i) {
    if (plan.workspace_bytes[i] > 0) nodes.push_back(i);
  }
  return !nodes.empty() && Shift(plan.memory.workspace_offset[Any(nodes, random)], random);
}
bool ForbidInPlace(Plan& plan, Random& random) {
  Any(plan.in_place, random) = 0;
  return true;
}

std::vector<int> CollectiveNodes(const Plan& plan) {
  std::vector<int> nodes;
  for (int i = 0; i < static_cast<int>(plan.program.nodes.size()); ++i) {
    if (plan.program.nodes[i].op->kind == OpKind::kAllReduce) nodes.push_back(i);
  }
  return nodes;
}
bool SwapRanks(Plan& plan, Random& random) {
  std::vector<int> nodes = CollectiveNodes(plan);
  if (nodes.empty()) return false;
  ProgramNode& one = plan.program.nodes[Any(nodes, random)];
  std::erase_if(nodes, [&](int i) { return plan.program.nodes[i].collective != one.collective; });
  ProgramNode& other = plan.program.nodes[Any(nodes, random)];
  int64_t &first = Any(one.ranks, random), &second = Any(other.ranks, random);
  std::swap(first, second);
  return first != second;
}
bool LeaveOutOfAverage(Plan& plan, Random& random) {
  std::vector<int> nodes = CollectiveNodes(plan);
  if (nodes.empty()) return false;
  ProgramNode& node = plan.program.nodes[Any(nodes, random)];
  LeaveOutRank(plan, node.collective, Any(node.ranks, random));
  return true;
}
bool LeaveOutOfAllAverages(Plan& plan, Random& random) {
  std::vector<int> nodes = CollectiveNodes(plan);
  if (nodes.empty()) return false;
  const int64_t rank = Any(plan.program.nodes[Any(nodes, random)].ranks, random);
  for (int c = 0; c < static_cast<int>(plan.program.collectives.size()); ++c) {
    if (rank < plan.program.collectives[c].size) LeaveOutRank(plan, c, rank);
  }
  return true;
}
// Takes a tower's operand out of a sum over towers, also where it is a member of an element-wise node.
bool LeaveOutOfTowerSum(Plan& plan, Random& random) {
  std::vector<ProgramNode*> sums;
  for (ProgramNode& node : plan.program.nodes) {
    std::vector<ProgramNode*> all = {&node};
    for (ProgramNode& member : node.body) all.push_back(&member);
    for (ProgramNode* each : all) {
      const bool over_towers = each->source->tower() < 0 && each->inputs.size() > 1;
      if (each->op->name == "AddN" && over_towers) sums.push_back(each);
    }
  }
  if (sums.empty()) return false;
  std::vector<Value>& inputs = Any(sums, random)->inputs;
  inputs.erase(inputs.begin() + static_cast<ptrdiff_t>(random() % inputs.size()));
  return true;
}
bool SamePlaces(const Plan& a, const Plan& b) {
  for (size_t i = 0; i < a.memory.outputs.size(); ++i) {
    for (size_t k = 0; k < a.memory.outputs[i].size(); ++k) {
      if (a.memory.outputs[i][k].offset != b.memory.outputs[i][k].offset) return false;
    }
  }
  return a.memory.workspace_offset == b.memory.workspace_offset;
}
bool SameInstructions(const Plan& a, const Plan& b) {
  for (size_t s = 0; s < a.streams.size(); ++s) {
    const bool same = std::equal(a.streams[s].instructions.begin(), a.streams[s].instructions.end(),
                                 b.streams[s].instructions.begin(), b.streams[s].instructions.end(),
                                 [](auto& x, auto& y) { return x.kind == y.kind && x.index == y.index; });
    if (!same) return false;
  }
  return true;
}

}  // namespace

std::vector<Mutation> Mutations() {
  return {
      {"drop a wait", [](Plan& plan, Random& random) { return Drop(plan, random, Kind::kWait); }},
      {"move a wait", [](Plan& plan, Random& random) { return Move(plan, random, Kind::kWait, 8); }},
      {"drop a record", [](Plan& plan, Random& random) { return Drop(plan, random, Kind::kRecord); }},
      {"move a record", [](Plan& plan, Random& random) { return Move(plan, random, Kind::kRecord, 8); }},
      {"drop a node", [](Plan& plan, Random& random) { return Drop(plan, random, Kind::kRun); }},
      {"move a node", [](Plan& plan, Random& random) { return Move(plan, random, Kind::kRun, 8); }},
      {"move a collective", [](Plan& plan, Random& random) { return Move(plan, random, Kind::kCollective, 8); }},
      {"swap slots", SwapSlots},
      {"shift a slot", ShiftSlot},
      {"shift a workspace", ShiftWorkspace},
      {"forbid work in place", ForbidInPlace},
      {"swap ranks", SwapRanks},
      {"drop a tower from an average", LeaveOutOfAverage},
      {"drop a tower from all averages", LeaveOutOfAllAverages},
      {"drop a tower from a sum", LeaveOutOfTowerSum},
  };
}

void LeaveOutRank(Plan& plan, int collective, int64_t rank) {
  Program& program = plan.program;
  for (int i = 0; i < static_cast<int>(program.nodes.size()); ++i) {
    ProgramNode& node = program.nodes[i];
    if (node.op->kind != OpKind::kAllReduce || node.collective != collective) continue;
    const auto left_out = std::find(node.ranks.begin(), node.ranks.end(), rank);
    const int values = static_cast<int>(node.outputs.size() / node.ranks.size());
    const int at = static_cast<int>(left_out - node.ranks.begin());
    if (left_out != node.ranks.end()) {
      node.ranks.erase(left_out);
      for (ProgramNode& reader : program.nodes) {
        for (Value& input : reader.inputs) {
          if (input.node != i || input.index < at * values) continue;
          const int k = input.index - at * values;
          if (k < values) {
            input = node.inputs[at * (values + 1) + 1 + k];
          } else {
            input.index -= values;
          }
        }
      }
      const auto inputs = node.inputs.begin() + at * (values + 1);
      node.inputs.erase(inputs, inputs + values + 1);
      node.outputs.erase(node.outputs.begin() + at * values, node.outputs.begin() + (at + 1) * values);
      auto& places = plan.memory.outputs[i];
      places.erase(places.begin() + at * values, places.begin() + (at + 1) * values);
    }
    for (int64_t& other : node.ranks) other -= other > rank ? 1 : 0;
    if (!node.ranks.empty()) continue;
    node.op = &OrderOp();
    for (StreamProgram& stream : plan.streams) {
      std::erase_if(stream.instructions, [&](const Instruction& instruction) {
        return (instruction.kind == Kind::kRun || instruction.kind == Kind::kCollective) && instruction.index == i;
      });
    }
  }
  --program.collectives[collective].size;
}

std::vector<uint64_t> Judge::Meanings(const Plan& damaged) const {
  std::vector<uint64_t> meanings = meanings_;
  for (size_t i = 0; i < meanings.size(); ++i) {
    if (!damaged.program.nodes[i].body.empty()) meanings[i] = execution::MeaningOf(damaged.program.nodes[i]);
  }
  return meanings;
}

Judge::Judge(const Plan& plan) : plan_(plan) {
  for (const ProgramNode& node : plan.program.nodes) meanings_.push_back(execution::MeaningOf(node));
  expected_ = execution::RunProgram(plan, meanings_);
}

std::string Judge::WhyHarmless(const Plan& damaged) const {
  const auto seen = execution::RunStreams(damaged, Meanings(damaged), 0);
  if (!seen.has_value() || *seen != expected_ || !execution::OrdersAllAccesses(damaged)) return "";
  if (!SamePlaces(damaged, plan_)) return "other memory is free";
  if (SameInstructions(damaged, plan_)) return "same plan";
  return execution::OrdersAsMuch(damaged, plan_) ? "the order stays" : "no bytes need the order";
}

bool Judge::LooksHarmless(const Plan& damaged, int orders, uint32_t seed) const {
  const std::vector<uint64_t> meanings = Meanings(damaged);
  for (int i = 0; i < orders; ++i) {
    const auto seen = execution::RunStreams(damaged, meanings, seed + static_cast<uint32_t>(i));
    if (!seen.has_value() || *seen != expected_) return false;
  }
  return true;
}

void MutatePlan(const std::string& name, const Plan& plan, int count, std::mt19937& random, MutationTable& table) {
  const Judge judge(plan);
  EXPECT_EQ(judge.WhyHarmless(plan), "same plan") << name;
  EXPECT_TRUE(judge.LooksHarmless(plan, 4, random())) << name;
  const std::vector<Mutation> mutations = Mutations();
  for (size_t kind = 0; count > 0; ++kind) {
    const Mutation& mutation = mutations[kind % mutations.size()];
    Plan damaged = plan;
    if (!mutation.apply(damaged, random)) continue;
    --count;
    const absl::Status verified = VerifyPlan(damaged).status();
    const std::string why = judge.WhyHarmless(damaged);
    auto& outcomes = table[mutation.name];
    if (!verified.ok()) {
      ++outcomes[why.empty() ? "caught" : "caught, harmless"];
      continue;
    }
    ++outcomes[why.empty() ? "missed" : absl::StrCat("harmless: ", why)];
    EXPECT_FALSE(why.empty()) << name << ": " << mutation.name << " is missed";
    EXPECT_TRUE(judge.LooksHarmless(damaged, 2, random())) << name << ": " << mutation.name;
  }
}

void Report(const MutationTable& table) {
  const std::vector<std::string> columns = {"caught",
                                            "caught, harmless",
                                            "harmless: same plan",
                                            "harmless: the order stays",
                                            "harmless: no bytes need the order",
                                            "harmless: other memory is free",
                                            "missed"};
  std::map<std::string, int> sums;
  std::printf("%-32s %7s\n", "mutation", "number");
  for (const auto& [mutation, outcomes] : table) {
    int number = 0;
    std::string text;
    for (const std::string& column : columns) {
      const auto found = outcomes.find(column);
      if (found == outcomes.end()) continue;
      number += found->second;
      sums[column] += found->second;
      absl::StrAppend(&text, text.empty() ? "" : "; ", found->second, " ", column);
    }
    sums["number"] += number;
    std::printf("%-32s %7d  %s\n", mutation.c_str(), number, text.c_str());
  }
  std::printf("%-32s %7d ", "all", sums["number"]);
  for (const std::string& column : columns) std::printf(" %d %s;", sums[column], column.c_str());
  std::printf("\n");
  EXPECT_EQ(sums["missed"], 0);
}

}  // namespace belfry::models
