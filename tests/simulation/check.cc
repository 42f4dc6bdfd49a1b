#include "tests/simulation/check.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace belfry::simulation {
namespace {

// The longest end after a deadline: giving up transfers, calling the roll, telling the others, and the polls of the
// watchers.
constexpr Nanoseconds kAfterDeadline = 500 * kMillisecond + 2 * kSecond + 500 * kMillisecond;
// The patience of the thread that ends MPI_Finalize.
constexpr Nanoseconds kFinalize = 10 * kSecond;

bool Harms(const Scenario& scenario) {
  switch (scenario.fault) {
    case Fault::kNone:
    case Fault::kDelay:
    case Fault::kSignal: return false;
    case Fault::kPause:
    case Fault::kLate: return scenario.lasting >= std::min(scenario.timeout, scenario.step_timeout) / 3;
    default: return true;
  }
}

std::vector<int> Faulty(const Scenario& scenario) {
  if (scenario.fault == Fault::kCut) return {scenario.victim, scenario.other};
  return {scenario.victim};
}

// The numbers after "task " in `text`.
void AddTasks(absl::string_view text, std::set<int>& tasks) {
  for (size_t at = text.find("task "); at != absl::string_view::npos; at = text.find("task ", at + 1)) {
    int task = 0;
    size_t digit = at + 5;
    for (; digit < text.size() && absl::ascii_isdigit(text[digit]); ++digit) task = 10 * task + (text[digit] - '0');
    if (digit > at + 5) tasks.insert(task);
  }
}

// The part of `text` between two others; empty if the first is not there.
absl::string_view Between(absl::string_view text, absl::string_view begin, absl::string_view end) {
  const size_t from = text.find(begin);
  if (from == absl::string_view::npos) return "";
  text.remove_prefix(from + begin.size());
  return text.substr(0, text.find(end));
}

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Checker {
 public:
  Checker(const Scenario& scenario, Machine& machine) : scenario_(scenario), machine_(machine) {}

  Report Run() {
    Disk disk;
    report_.disturbed = Train(scenario_, /*disturbed=*/true, disk, machine_);
    bool failed = false;
    for (const RankResult& rank : report_.disturbed.ranks) failed |= !rank.status.ok();
    report_.problems = report_.disturbed.lock_cycles;
    if (failed && !Harms(scenario_)) Problem("an error, although nothing is wrong");
    CheckEnds(report_.disturbed, /*disturbed=*/true);
    for (int rank = 0; rank < scenario_.ranks; ++rank) CheckRank(rank);
    CheckSteps();
    CheckWeights(report_.disturbed, "");
    CheckDisk(disk, "");
    if (failed) Resume(disk);
    return std::move(report_);
  }

 private:
  void Problem(const std::string& text) { report_.problems.push_back(text); }
  const RankResult& Result(int rank) const { return report_.disturbed.ranks[rank]; }
  bool IsFaulty(int rank) const {
    const std::vector<int> faulty = Faulty(scenario_);
    return Harms(scenario_) && std::find(faulty.begin(), faulty.end(), rank) != faulty.end();
  }
  // It cannot end, or only after all others.
  bool IsLost(int rank) const {
    return rank == scenario_.victim && (scenario_.fault == Fault::kCrash || scenario_.fault == Fault::kStop);
  }

  // True if the tasks that an error names wait for a faulty one, or for others that do, and so on.
  bool LeadsToFaulty(absl::string_view error) const {
    const std::map<int, int> awaited = Awaited(error);
    for (int task : Blamed(error)) {
      for (int steps = 0; steps < scenario_.ranks && !IsFaulty(task); ++steps) {
        const auto next = awaited.find(task);
        if (next == awaited.end()) break;
        task = next->second;
      }
      if (IsFaulty(task)) return true;
    }
    return false;
  }

  void CheckEnds(const RunResult& run, bool disturbed) {
    // A run without a fault takes about so long.
    const Nanoseconds length = scenario_.steps * (scenario_.computing + 100 * scenario_.network.latency) +
                               500 * (scenario_.network.latency + scenario_.network.jitter) + kSecond;
    const Nanoseconds latest = length + scenario_.lasting + std::max(scenario_.timeout, scenario_.step_timeout) +
                               kAfterDeadline + (disturbed && Harms(scenario_) ? kFinalize : 0);
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      const RankResult& result = run.ranks[rank];
      const char* const when = disturbed ? "" : "resumed: ";
      if (disturbed && IsLost(rank)) continue;
      if (!result.ended) {
        Problem(absl::StrCat(when, "rank ", rank, " hangs"));
      } else if (result.ended_at > latest) {
        Problem(absl::StrCat(when, "rank ", rank, " ends at ", absl::FormatDuration(ToDuration(result.ended_at)),
                             ", which should be ", absl::FormatDuration(ToDuration(latest)), " or before"));
      }
    }
  }

  void CheckRank(int rank) {
    const RankResult& result = Result(rank);
    if (!result.ended || result.status.ok()) return;
    Add(result.status.status().ToString());
    if (!Harms(scenario_)) return Problem(absl::StrCat("rank ", rank, ": ", result.status.status().ToString()));
    if (rank == scenario_.victim) return;
    const absl::string_view error = result.status.status().message();
    // A cut link, or a pause that is over, leaves all at work: the roll call shows where they are.
    const bool passes = scenario_.fault == Fault::kCut ? rank != scenario_.other : scenario_.fault == Fault::kPause;
    const bool all_answer = absl::StrContains(error, "The tasks:") && !absl::StrContains(error, "says nothing");
    if (passes && all_answer) return;
    if (all_answer && LeadsToFaulty(error)) return;
    const std::vector<int> blamed = Blamed(error);
    std::vector<int> healthy;
    bool right = false;
    for (const int one : blamed) {
      if (IsFaulty(one)) {
        right = true;
      } else {
        healthy.push_back(one);
      }
    }
    if (!healthy.empty()) {
      Problem(absl::StrCat("rank ", rank, " blames ", absl::StrJoin(healthy, ", "),
                           ", which did nothing: ", result.status.status().ToString()));
    }
    if (!right) Problem(absl::StrCat("rank ", rank, " blames none that failed: ", result.status.status().ToString()));
  }

  // Ranks that end well have done the same steps.
  void CheckSteps() {
    std::set<int64_t> steps;
    for (const RankResult& result : report_.disturbed.ranks) {
      if (!result.status.ok()) continue;
      steps.insert(result.steps);
      const int stopped = result.steps < scenario_.steps ? SIGTERM : 0;
      if (stopped != 0 && scenario_.fault != Fault::kSignal) Problem("a rank ends early, and well");
      // The last step may be the one after which all stop.
      if (*result.status != stopped && scenario_.fault != Fault::kSignal) {
        Problem(absl::StrCat("the result of a run is ", *result.status));
      }
    }
    if (steps.size() > 1) Problem(absl::StrCat("ranks end well after steps ", absl::StrJoin(steps, ", ")));
  }

  const std::vector<float>& Expected(int64_t steps) {
    if (expected_.empty()) expected_ = ExpectedWeights(scenario_, machine_);
    return expected_[steps];
  }

  void CheckWeights(const RunResult& run, const std::string& when) {
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      const RankResult& result = run.ranks[rank];
      if (result.weights.empty()) continue;
      Add(absl::StrCat(rank, " ", result.ended_at, " ", result.steps));
      Add({reinterpret_cast<const char*>(result.weights.data()), result.weights.size() * sizeof(float)});
      if (Same(result.weights, Expected(result.steps))) continue;
      Problem(absl::StrCat(when, "rank ", rank, " has other weights after step ", result.steps));
    }
  }

  void CheckDisk(Disk& disk, const std::string& when) {
    std::vector<std::string> problems;
    for (const auto& [step, weights] : ReadCheckpoints(scenario_, disk, problems)) {
      Add(absl::StrCat("step ", step));
      if (!Same(weights, Expected(step))) Problem(absl::StrCat(when, "the checkpoint of step ", step, " is wrong"));
    }
    for (const std::string& problem : problems) Problem(absl::StrCat(when, problem));
  }

  void Resume(Disk& disk) {
    const RunResult run = Train(scenario_, /*disturbed=*/false, disk, machine_);
    CheckEnds(run, /*disturbed=*/false);
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      const RankResult& result = run.ranks[rank];
      if (!result.status.ok()) {
        Problem(absl::StrCat("resumed: rank ", rank, ": ", result.status.status().ToString()));
      } else if (result.steps != scenario_.steps) {
        Problem(absl::StrCat("resumed: rank ", rank, " ends after step ", result.steps));
      }
    }
    CheckWeights(run, "resumed: ");
    CheckDisk(disk, "resumed: ");
  }

  // FNV-1a.
  void Add(absl::string_view text) {
    for (const char c : text) report_.fingerprint = (report_.fingerprint ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  }

  const Scenario& scenario_;
  Machine& machine_;
  std::vector<std::vector<float>> expected_;  // indexed by step; empty until one is asked for
  Report report_{.problems = {}, .disturbed = {}, .fingerprint = 0xCBF29CE484222325};
};

}  // namespace

std::vector<int> Blamed(absl::string_view error) {
  std::set<int> silent, tasks;
  for (const absl::string_view line : absl::StrSplit(error, '\n')) {
    if (!absl::StartsWith(line, "  task ") || !absl::StrContains(line, "says nothing")) continue;
    AddTasks(line.substr(0, line.find('(')), silent);
  }
  if (!silent.empty()) return {silent.begin(), silent.end()};
  for (const absl::string_view before : {"before the deadline from ", "before the deadline by "}) {
    AddTasks(Between(error, before, ":"), tasks);
  }
  const size_t own = error.find(": data_batch_4.bin");
  if (own != absl::string_view::npos) {
    const size_t task = error.rfind("task ", own);
    AddTasks(error.substr(task, own - task), tasks);
  }
  return {tasks.begin(), tasks.end()};
}

std::map<int, int> Awaited(absl::string_view error) {
  std::map<int, int> awaited;
  for (const absl::string_view line : absl::StrSplit(error, '\n')) {
    constexpr absl::string_view kWaiting = "waiting for ";
    const size_t at = line.find(kWaiting);
    if (!absl::StartsWith(line, "  task ") || at == absl::string_view::npos) continue;
    std::set<int> task, other;
    AddTasks(line.substr(0, std::min(at, line.find('('))), task);
    AddTasks(line.substr(at), other);
    if (task.size() == 1 && other.size() == 1) awaited[*task.begin()] = *other.begin();
  }
  return awaited;
}

Report Simulate(const Scenario& scenario, Machine& machine) { return Checker(scenario, machine).Run(); }

}  // namespace belfry::simulation
