// Random damages of plans, and what becomes of them.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "framework/compiler/plan.h"
#include "tests/framework/compiler/execution.h"

namespace belfry::models {

struct Mutation {
  const char* name;
  // False if the plan has nothing of the kind.
  bool (*apply)(Plan& plan, std::mt19937& random);
};
// Mutations of instructions, of memory, and of collectives and sums of towers.
std::vector<Mutation> Mutations();

// Leaves a rank out of a collective of the plan, in all of its nodes alike: its values stay as they are, and the other
// ranks are counted anew.
void LeaveOutRank(Plan& plan, int collective, int64_t rank);

// The results of damaged plans, compared with those of one that is whole.
class Judge {
 public:
  // Borrows the plan.
  explicit Judge(const Plan& plan);

  // Empty if some order of execution computes something else than the plan does, or none is ever over. Otherwise the
  // reason why none does: "same plan", "the order stays", "no bytes need the order", "other memory is free".
  std::string WhyHarmless(const Plan& damaged) const;
  // True if none of `orders` random orders of execution computes anything else.
  bool LooksHarmless(const Plan& damaged, int orders, uint32_t seed) const;

 private:
  // The meanings of the damaged nodes. Only those that have members can have changed.
  std::vector<uint64_t> Meanings(const Plan& damaged) const;

  const Plan& plan_;
  std::vector<uint64_t> meanings_;
  execution::Seen expected_;
};

// Numbers of mutations by kind and outcome: "caught", "caught, harmless", "missed" and "harmless: <why>".
using MutationTable = std::map<std::string, std::map<std::string, int>>;

// Applies `count` mutations of all kinds in turn to the plan, and adds what the checker says to the table. The test
// fails if one is missed, or if the judge finds one harmless and a random order of execution shows that it is not.
void MutatePlan(const std::string& name, const Plan& plan, int count, std::mt19937& random, MutationTable& table);

// Prints the table, and expects that nothing was missed.
void Report(const MutationTable& table);

}  // namespace belfry::models
