// Trains in simulated processes, with what goes wrong drawn from seeds, and prints the seeds of runs in which something
// does not hold (check.h). Returns 1 if there are any.
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "framework/base/steady_time.h"
#include "tests/simulation/check.h"

ABSL_FLAG(int64_t, seeds, 2000, "The number of runs, each of a seed of its own");
ABSL_FLAG(int64_t, seed, -1, "Run this seed alone, and print how each rank ends");
ABSL_FLAG(int64_t, first_seed, 0, "The first of the seeds");
ABSL_FLAG(int, ranks, 0, "The number of ranks; 0: 2 to 168, drawn from the seed");
ABSL_FLAG(int, jobs, 0, "Processes that share the seeds; 0: one for each core");

namespace belfry::simulation {
namespace {

// Prints what does not hold of a run. True if all does.
bool Holds(uint64_t seed, Machine& machine, bool verbose) {
  const Scenario scenario = Draw(seed, absl::GetFlag(FLAGS_ranks));
  const absl::Time begin = SteadyNow();
  const Report report = Simulate(scenario, machine);
  if (verbose) {
    std::printf("%s\n", ToString(scenario).c_str());
    for (size_t rank = 0; rank < report.disturbed.ranks.size() && rank < 32; ++rank) {
      const RankResult& result = report.disturbed.ranks[rank];
      std::printf(
          "rank %zu, %s after step %d: %s\n", rank,
          result.ended ? absl::StrCat("ends at ", absl::FormatDuration(ToDuration(result.ended_at))).c_str() : "lost",
          static_cast<int>(result.steps), result.status.status().ToString().c_str());
    }
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
  const int64_t seeds = absl::GetFlag(FLAGS_seeds), first = absl::GetFlag(FLAGS_first_seed);
  if (arguments > 1) return "simulate takes flags only";
  if (absl::GetFlag(FLAGS_seed) < -1) return "--seed must be at least 0";
  if (seeds < 1) return "--seeds must be at least 1";
  if (first < 0 || first > std::numeric_limits<int64_t>::max() - seeds) {
    return "--first_seed must be at least 0, and the last seed at most 2^63 - 1";
  }
  const int ranks = absl::GetFlag(FLAGS_ranks);
  return ranks < 0 || ranks > kMostRanks ? absl::StrCat("--ranks must be from 0 to ", kMostRanks) : "";
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
  int jobs = absl::GetFlag(FLAGS_jobs);
  if (jobs <= 0) jobs = static_cast<int>(std::thread::hardware_concurrency());
  const bool all = RunAll(jobs);
  std::printf("%lld seeds in %s: %s\n", static_cast<long long>(absl::GetFlag(FLAGS_seeds)),
              absl::FormatDuration(absl::Trunc(SteadyNow() - begin, absl::Milliseconds(100))).c_str(),
              all ? "all hold" : "some do not hold; --seed=N shows one again");
  return all ? 0 : 1;
}

}  // namespace
}  // namespace belfry::simulation

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("simulates training in many processes, with faults, in virtual time");
  return belfry::simulation::Main(absl::ParseCommandLine(argc, argv).size());
}
