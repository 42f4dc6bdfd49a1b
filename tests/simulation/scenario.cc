#include "tests/simulation/scenario.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/units.h"
#include "framework/collective/process_tree.h"

namespace belfry::simulation {
namespace {

// The number of ranks from which a run is drawn that can be waited for: a world of P processes sends P squared messages
// at its start and its end.
constexpr int kMany = 100;

NetworkOptions DrawNetwork(Random& random) {
  NetworkOptions network;
  network.latency = random.Between(1, 100) * kMicrosecond;
  network.jitter = random.OneIn(3) ? network.latency * 10 : network.latency / 2;
  network.call = random.Between(50, 1000);
  network.eager = random.OneIn(4) ? 1024 : 4096;
  if (random.OneIn(4)) network.longest = 1500;
  if (random.OneIn(3)) network.lost_one_in = static_cast<int>(random.Between(10, 300));
  return network;
}

// Mostly few, and sometimes enough for messages through a tree.
int DrawRanks(Random& random) {
  return static_cast<int>(random.OneIn(200) ? random.Between(kFewestInTree, kFewestInTree + 40)
                                            : random.Between(2, 16));
}

void DrawTrainer(Scenario& scenario, Random& random) {
  scenario.elements = static_cast<int>(random.Between(1, 12));
  scenario.sum = WorldSum::kTowers;
  scenario.towers = static_cast<int>(random.Between(1, 2));
  if (random.OneIn(2)) scenario.bucket_bytes = 1 << 20;
  scenario.shard_optimizer = random.OneIn(3);
  scenario.threads_of_devices = random.OneIn(2);
  if (random.OneIn(3)) scenario.check_replicas_every = static_cast<int>(random.Between(1, 4));
  if (random.OneIn(2)) scenario.evaluate_every = static_cast<int>(random.Between(1, 4));
}

void DrawFault(Scenario& scenario, Random& random) {
  constexpr Fault kFaults[] = {Fault::kNone, Fault::kCrash, Fault::kStop,  Fault::kPause, Fault::kLate,
                               Fault::kCut,  Fault::kDelay, Fault::kError, Fault::kSignal};
  scenario.fault = kFaults[random.Below(std::size(kFaults))];
  scenario.victim = static_cast<int>(random.Below(scenario.ranks));
  if (scenario.ranks > 1) {
    scenario.other = static_cast<int>(random.Below(scenario.ranks - 1));
    if (scenario.other >= scenario.victim) ++scenario.other;
  } else if (scenario.fault == Fault::kCut) {
    scenario.fault = Fault::kNone;  // there is no link
  }
  // A third of all faults come while the ranks begin, which takes about 50 latencies. A Trainer first reads examples,
  // to compare the data of the ranks.
  const bool trainer = scenario.program == ProgramKind::kTrainer;
  const Nanoseconds latency = scenario.network.latency,
                    begin = 50 * (latency + scenario.network.jitter) + (trainer ? 16 : 0) * scenario.computing,
                    whole = begin + scenario.steps * (scenario.computing + (trainer ? 15 : 5) * latency);
  scenario.at = random.OneIn(3) ? random.Below(begin) : random.Below(whole + whole / 8);
  const Nanoseconds patience = std::min(scenario.timeout, scenario.step_timeout);
  switch (scenario.fault) {
    case Fault::kPause:
    case Fault::kLate:
      // Clearly too short to harm, or long enough to.
      scenario.lasting = random.OneIn(2) ? random.Below(patience / 3) : random.Between(4, 8) * scenario.timeout;
      if (scenario.fault == Fault::kLate) scenario.at = 0;
      break;
    // A step of a Trainer may take some 20 messages, one after the other.
    case Fault::kDelay: scenario.lasting = random.Below(patience / (trainer ? 80 : 20)); break;
    default: break;
  }
}

}  // namespace

std::string FaultName(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "none";
    case Fault::kCrash: return "crash";
    case Fault::kStop: return "stop";
    case Fault::kPause: return "pause";
    case Fault::kLate: return "late start";
    case Fault::kCut: return "cut link";
    case Fault::kDelay: return "delay";
    case Fault::kError: return "error";
    case Fault::kSignal: return "signal";
  }
  return "";
}

Scenario Draw(uint64_t seed, const Chosen& chosen) {
  Random random(seed);
  random.Next();
  Scenario scenario{.seed = seed, .ranks = chosen.ranks != 0 ? chosen.ranks : DrawRanks(random)};
  if (chosen.program == ProgramKind::kTrainer && scenario.ranks > kMostWithTrainer) {
    scenario.ranks = static_cast<int>(random.Between(2, kMostWithTrainer));
  }
  scenario.network = DrawNetwork(random);
  scenario.steps = random.Between(3, 12);
  scenario.elements = static_cast<int>(random.OneIn(8) ? random.Between(1, 20'000) : random.Between(1, 40));
  scenario.checkpoint_every = static_cast<int>(random.Between(1, 5));
  scenario.sum = random.OneIn(2) ? WorldSum::kTowers : WorldSum::kProcesses;
  scenario.timeout = random.Between(200, 600) * kMillisecond;
  scenario.step_timeout = random.Between(60, 300) * kMillisecond;
  scenario.computing = random.Between(10, 5000) * kMicrosecond;
  scenario.switch_every = random.OneIn(2) ? static_cast<int>(random.Between(5, 500)) : 0;
  if (scenario.ranks >= kMany) {
    scenario.network = {.latency = 20 * kMicrosecond, .jitter = 10 * kMicrosecond, .call = 500};
    scenario.steps = 30;
    scenario.elements = static_cast<int>(random.Between(1, 16));
    scenario.checkpoint_every = 10;
    scenario.switch_every = 0;
    scenario.laziness = 5 * kMillisecond;
  }
  const bool trainer = scenario.ranks <= kMostWithTrainer && random.OneIn(6);
  scenario.program = chosen.program.value_or(trainer ? ProgramKind::kTrainer : ProgramKind::kHandMade);
  if (scenario.program == ProgramKind::kTrainer) DrawTrainer(scenario, random);
  DrawFault(scenario, random);
  if (scenario.ranks < kMany && random.OneIn(2)) scenario.route = WorldRoute::kTree;
  return scenario;
}

std::string ToString(const Scenario& s) {
  std::string text = absl::StrCat("seed ", s.seed, ": ", Counted(s.ranks, "rank"), ", ", Counted(s.steps, "step"), ", ",
                                  Counted(s.elements, "element"),
                                  s.program == ProgramKind::kTrainer ? ", Trainer" : ", program by hand",
                                  ", fault: ", FaultName(s.fault));
  if (s.fault == Fault::kNone) return text;
  absl::StrAppend(&text, " of rank ", s.victim);
  if (s.fault == Fault::kCut) absl::StrAppend(&text, " to ", s.other);
  absl::StrAppend(&text, " at ", absl::FormatDuration(ToDuration(s.at)));
  if (s.lasting > 0) {
    absl::StrAppend(&text, s.fault == Fault::kPause ? ", for " : ", by ", absl::FormatDuration(ToDuration(s.lasting)));
  }
  return text;
}

}  // namespace belfry::simulation
