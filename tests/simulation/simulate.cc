// Trains in simulated processes, with what goes wrong drawn from seeds, and prints the seeds of runs in which something
// does not hold (check.h). Returns 1 if there are any.
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/base/steady_time.h"
#include "framework/base/units.h"
#include "tests/simulation/check.h"

ABSL_FLAG(int64_t, seeds, 2000, "The number of runs, each of a seed of its own");
ABSL_FLAG(int64_t, seed, -1, "Run this seed alone, and print how its ranks end");
ABSL_FLAG(int64_t, first_seed, 0, "The first of the seeds");
ABSL_FLAG(int, ranks, 0, "The number of ranks; 0: 2 to 168, drawn from the seed");
ABSL_FLAG(std::string, program, "", "What each rank runs, by_hand or trainer, which takes up to 8; empty: drawn");
ABSL_FLAG(int, jobs, 0, "Processes that share the seeds; 0: one for each core");

namespace belfry::simulation {
namespace {

constexpr absl::string_view kByHand = "by_hand", kTrainer = "trainer";

// A status without the name of the rank that has it, and without all but the first of adjacent lines that say the same
// of tasks.
std::string Shorten(int rank, const absl::Status& status) {
  std::string text = status.ToString();
  const std::string own = absl::StrCat("in task ", rank, " (");
  if (const size_t at = text.find(own), end = text.find("): ", at); at != text.npos && end != text.npos) {
    text.erase(at, end + 3 - at);
  }
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  // The text after "task 3 (vm, pid 4)".
  const auto said = [](absl::string_view line) { return line.substr(std::min(line.size(), line.find(")  "))); };
  std::string shorter;
  for (size_t begin = 0, end = 0; begin < lines.size(); begin = end) {
    for (end = begin + 1;
         end < lines.size() && !said(lines[begin]).empty() && said(lines[end]) == said(lines[begin]);) {
      ++end;
    }
    absl::StrAppend(&shorter, begin == 0 ? "" : "\n", lines[begin]);
    if (end > begin + 1) absl::StrAppend(&shorter, "\n  and ", Counted(end - begin - 1, "more task"), " likewise");
  }
  return shorter;
}

// Ranks that end alike, but for the time.
struct Group {
  std::string outcome;
  bool named = false, failed = false;  // the scenario's fault is that of one of them; they end with an error, or never
  std::vector<int> ranks = {};         // ascending
  Nanoseconds first = kNever, last = 0;
};

std::vector<Group> GroupRanks(const Scenario& scenario, const std::vector<RankResult>& ranks) {
  std::vector<Group> groups;
  std::map<std::string, size_t> by_outcome;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    const RankResult& result = ranks[rank];
    const bool named = scenario.fault != Fault::kNone &&
                       (rank == scenario.victim || (scenario.fault == Fault::kCut && rank == scenario.other));
    std::string outcome = absl::StrCat(result.ended ? "" : "lost ", "after step ", result.steps, ": ",
                                       Shorten(rank, result.status.status()));
    // A named rank has a line of its own.
    const auto [found, is_new] = by_outcome.emplace(named ? absl::StrCat("rank ", rank) : outcome, groups.size());
    if (is_new) {
      groups.push_back({.outcome = std::move(outcome), .named = named, .failed = !result.ended || !result.status.ok()});
    }
    Group& group = groups[found->second];
    group.ranks.push_back(rank);
    group.first = std::min(group.first, result.ended_at);
    group.last = std::max(group.last, result.ended_at);
  }
  return groups;
}

// "rank 3", "ranks 0 to 4, 6, 8 to 9".
std::string Names(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    for (end = begin + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    absl::StrAppend(&text, begin == 0 ? " " : ", ", ranks[begin]);
    if (end > begin + 1) absl::StrAppend(&text, " to ", ranks[end - 1]);
  }
  return text;
}

// Prints a line for those that end alike: the ranks whose fault the scenario has, then those that fail, then others.
void PrintRanks(const Scenario& scenario, const std::vector<RankResult>& ranks) {
  constexpr size_t kMostGroups = 32;
  std::vector<Group> groups = GroupRanks(scenario, ranks);
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::tuple(!a.named, !a.failed) < std::tuple(!b.named, !b.failed);
  });
  size_t left_out = 0, failed = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    if (i >= kMostGroups) {
      left_out += group.ranks.size();
      if (group.failed) failed += group.ranks.size();
      continue;
    }
    std::string end;
    if (group.last < kNever) {
      const bool alone = group.ranks.size() == 1;
      absl::StrAppend(&end, alone ? "ends at " : "end at ", absl::FormatDuration(ToDuration(group.first)));
      if (group.last > group.first) absl::StrAppend(&end, " to ", absl::FormatDuration(ToDuration(group.last)));
      absl::StrAppend(&end, " ");
    }
    std::printf("%s, %s%s\n", Names(group.ranks).c_str(), end.c_str(), group.outcome.c_str());
  }
  if (left_out > 0) std::printf("and %s, of which %zu failed\n", Counted(left_out, "more rank").c_str(), failed);
}

// Prints what does not hold of a run. True if all does.
bool Holds(uint64_t seed, Machine& machine, bool verbose) {
  Chosen chosen{.ranks = absl::GetFlag(FLAGS_ranks)};
  const std::string program = absl::GetFlag(FLAGS_program);
  if (!program.empty()) chosen.program = program == kTrainer ? ProgramKind::kTrainer : ProgramKind::kHandMade;
  const Scenario scenario = Draw(seed, chosen);
  const absl::Time begin = SteadyNow();
  const Report report = Simulate(scenario, machine);
  if (verbose) {
    std::printf("%s\n", ToString(scenario).c_str());
    PrintRanks(scenario, report.disturbed.ranks);
    std::printf("%lld messages, %lld switches, fingerprint %016llx, %s\n",
                static_cast<long long>(report.disturbed.messages), static_cast<long long>(report.disturbed.switches),
                static_cast<unsigned long long>(report.fingerprint),
                absl::FormatDuration(absl::Trunc(SteadyNow() - begin, absl::Milliseconds(1))).c_str());
  }
  if (report.problems.empty()) return true;
  std::string text = absl::StrCat("FAILED ", ToString(scenario), "\n");
  for (size_t i = 0; i < report.problems.size() && i < 4; ++i) absl::StrAppend(&text, "  ", report.problems[i], "\n");
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return false;
}

// The seeds of one of several jobs, from `current` on, which is the one that it is at.
bool RunShare(int jobs, int64_t end, int64_t& current) {
  // Processes print what a launcher would show.
  if (std::freopen("/dev/null", "w", stderr) == nullptr) return false;
  Machine machine;
  bool all = true;
  for (; current < end; current += jobs) all &= Holds(current, machine, /*verbose=*/false);
  return all;
}

// Forks a process for RunShare.
pid_t StartJob(int jobs, int64_t end, int64_t& current) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  const bool all = RunShare(jobs, end, current);
  std::fflush(stdout);
  _exit(all ? 0 : 1);
}

// Runs all seeds in that many processes. One that crashes is followed by another, from the next seed on. True if all
// hold.
bool RunAll(int jobs) {
  // Shared with the jobs.
  void* const memory = mmap(nullptr, jobs * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* const current = static_cast<int64_t*>(memory);
  const int64_t first = absl::GetFlag(FLAGS_first_seed), end = first + absl::GetFlag(FLAGS_seeds);
  std::vector<pid_t> children;
  for (int job = 0; job < jobs; ++job) {
    current[job] = first + job;
    children.push_back(StartJob(jobs, end, current[job]));
  }
  bool all = true;
  for (int job = 0; job < jobs; ++job) {
    int status = 0;
    while (children[job] > 0 && waitpid(children[job], &status, 0) == children[job] && WIFSIGNALED(status)) {
      all = false;
      std::printf("FAILED seed %lld: the program crashes\n", static_cast<long long>(current[job]));
      current[job] += jobs;
      children[job] = StartJob(jobs, end, current[job]);
    }
    all &= status == 0;
    if (current[job] < end) {
      std::printf("FAILED: the seeds from %lld on in steps of %d have not run\n", static_cast<long long>(current[job]),
                  jobs);
      all = false;
    }
  }
  return all;
}

// The fault of the flags; empty if there is none.
std::string FlagsFault(size_t arguments) {
  constexpr int kMostRanks = 10'000;
  constexpr int64_t kMostSeeds = int64_t{1} << 62;  // an end that jobs may pass without an overflow
  const int64_t seeds = absl::GetFlag(FLAGS_seeds), first = absl::GetFlag(FLAGS_first_seed);
  if (arguments > 1) return "simulate takes flags only";
  if (absl::GetFlag(FLAGS_seed) < -1) return "--seed must be at least 0";
  if (seeds < 1) return "--seeds must be at least 1";
  if (first < 0 || seeds > kMostSeeds || first > kMostSeeds - seeds) {
    return "--first_seed must be at least 0, and the last seed less than 2^62";
  }
  if (absl::GetFlag(FLAGS_jobs) < 0) return "--jobs must be at least 0";
  const int ranks = absl::GetFlag(FLAGS_ranks);
  const std::string program = absl::GetFlag(FLAGS_program);
  if (!program.empty() && program != kByHand && program != kTrainer) return "--program must be by_hand or trainer";
  if (program == kTrainer && ranks > kMostWithTrainer) {
    return absl::StrCat("--program=trainer takes at most ", kMostWithTrainer, " ranks");
  }
  return ranks < 0 || ranks > kMostRanks ? absl::StrCat("--ranks must be from 0 to ", kMostRanks) : "";
}

// The number of processes that share the seeds.
int Jobs() {
  int64_t jobs = absl::GetFlag(FLAGS_jobs);
  if (jobs == 0) jobs = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(std::min(jobs, absl::GetFlag(FLAGS_seeds)));
}

int Main(size_t arguments) {
  if (const std::string fault = FlagsFault(arguments); !fault.empty()) {
    std::fprintf(stderr, "Error: %s\n", fault.c_str());
    return 2;
  }
  spdlog::set_level(spdlog::level::off);  // a run warns of what goes wrong in it
  if (absl::GetFlag(FLAGS_seed) >= 0) {
    Machine machine;
    return Holds(absl::GetFlag(FLAGS_seed), machine, /*verbose=*/true) ? 0 : 1;
  }
  const absl::Time begin = SteadyNow();
  const bool all = RunAll(Jobs());
  std::printf("%s in %s: %s\n", Counted(absl::GetFlag(FLAGS_seeds), "seed").c_str(),
              absl::FormatDuration(absl::Trunc(SteadyNow() - begin, absl::Milliseconds(100))).c_str(),
              all ? "all hold" : "some do not hold; --seed=N, with the same --ranks and --program, shows one again");
  return all ? 0 : 1;
}

}  // namespace
}  // namespace belfry::simulation

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("simulates training in many processes, with faults, in virtual time");
  return belfry::simulation::Main(absl::ParseCommandLine(argc, argv).size());
}
