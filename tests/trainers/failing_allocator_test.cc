// An allocator that fails at its k-th call, once or from then on: a short training by two towers, with an evaluation
// and checkpoints, ends well or with ResourceExhausted, its checkpoints are whole, and it goes on to the end of an
// undisturbed run. Some values of k, drawn by the
// seed of the tests; all of them if BELFRY_ALLOCATIONS=all. Each training is a process of its own.
//
// Not failed are allocations that a library answers by ending the program, which no caller can prevent: libgomp exits,
// oneDNN constructs its objects at the null pointer that it gets, and absl::StrFormat appends to its result in a
// destructor.
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/io/checkpoint_directory.h"
#include "tests/environment/malloc_hooks.h"
#include "tests/framework/io/io_testing.h"
#include "tests/trainers/experiment.h"
#include "trainers/loop/run_directory.h"
#include "trainers/program/trainer.h"

namespace {

constexpr int kFrames = 64, kMaxExcluded = 8;

struct Range {
  uintptr_t begin = 0, end = 0;
};

std::atomic<int64_t> calls{0};
int64_t failing = 0;  // the call that fails
bool once = true;     // those after it succeed
Range excluded[kMaxExcluded];
int excluded_count = 0;
thread_local bool looking = false;

bool FromExcludedLibrary() {
  if (looking) return true;
  looking = true;
  void* frames[kFrames];
  const int depth = backtrace(frames, kFrames);
  looking = false;
  return std::any_of(frames, frames + depth, [](void* frame) {
    const auto address = reinterpret_cast<uintptr_t>(frame);
    return std::any_of(excluded, excluded + excluded_count,
                       [&](const Range& range) { return range.begin <= address && address < range.end; });
  });
}

bool FailsNow() {
  const int64_t call = calls.fetch_add(1) + 1;
  if (call < failing || (once && call > failing)) return false;
  return !FromExcludedLibrary();
}

}  // namespace

namespace belfry::trainers {
namespace {

constexpr int kSamples = 24;
constexpr unsigned kMaxSeconds = 60;

enum Ending { kDone = 0, kOutOfMemory = 3, kOtherError = 4, kThreadsLeft = 5 };

// The result that a process leaves behind: the number of its allocations while they were counted.
int64_t& SharedCount() {
  static int64_t* const count =
      static_cast<int64_t*>(mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *count;
}

void FindExcludedLibraries() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        const char* const slash = std::strrchr(info->dlpi_name, '/');
        const std::string name = slash == nullptr ? info->dlpi_name : slash + 1;
        constexpr absl::string_view kEndTheProgram[] = {"libgomp.", "libomp.", "libdnnl.", "libabsl_str_format"};
        const bool excludes = std::any_of(std::begin(kEndTheProgram), std::end(kEndTheProgram),
                                          [&](absl::string_view prefix) { return absl::StartsWith(name, prefix); });
        if (!excludes) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0 || excluded_count == kMaxExcluded) continue;
          const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
          excluded[excluded_count++] = {begin, begin + header.p_memsz};
        }
        return 0;
      },
      nullptr);
}

int Threads() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

// Whether all other threads have ended. A thread that was joined stays in the list until the kernel has buried it.
bool IsAlone() {
  constexpr int kTries = 5000;
  for (int i = 0; i < kTries && Threads() > 1; ++i) usleep(1000);
  return Threads() == 1;
}

// Three steps of two towers; goes on from the checkpoints in `folder`, if there are any.
absl::Status Train(const data::Dataset& dataset, const std::string& folder, int64_t steps) {
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open("cpu:2", {.cpu_threads = 1}));
  const absl::StatusOr<io::Checkpoint> last = io::LoadLatestCheckpoint(CheckpointFolder(folder));
  if (!last.ok() && !absl::IsNotFound(last.status())) return last.status();
  ASSIGN_OR_RETURN(
      const auto input,
      data::Prefetcher::Create(
          dataset,
          {.batch_size = 4, .towers = 2, .start = {.epoch = 0, .batch = last.ok() ? last->step : 0}, .threads = 1}));
  const auto logits = [](const Scope& scope, Output x, bool training) {
    return models::Mlp(scope, x, {.hidden = {4}, .classes = kClasses, .training = training});
  };
  const auto model = [&](const Scope& tower, const models::Batch& examples) -> absl::StatusOr<Output> {
    models::AddCrossEntropy(tower, logits(tower, examples["point"], true), examples["label"]);
    return models::TotalLoss(tower);
  };
  Graph graph(BuiltinOps());
  const models::TrainStep step = models::ReplicateTowers(Scope(graph), devices, *input, model,
                                                         optim::Momentum({.learning_rate = 0.1, .momentum = 0.9}));
  const Evaluator evaluator(Scope(graph).NameScope("evaluation").ReuseVariables(Reuse::kAlways), input->fields(),
                            [&](const Scope& scope, const models::Batch& batch) -> absl::StatusOr<Output> {
                              return logits(scope, batch["point"], false);
                            });
  RETURN_IF_ERROR(graph.status());
  // Each tower on its thread.
  ASSIGN_OR_RETURN(const auto session, Session::Create(graph, devices, {.short_step = absl::ZeroDuration()}));
  TrainerOptions options{.steps = steps,
                         .log_every = 1,
                         .metrics_file = folder + "/metrics.jsonl",
                         .quiet = true,
                         .directory = folder,
                         .checkpoint_every = 2,
                         .resume = {.checkpoint = last.ok() ? &*last : nullptr}};
  options.evaluate = [&](int64_t) { return evaluator.Run(*session, dataset, input->options().images, 8); };
  Trainer trainer(*session, step, *input, options);
  return trainer.Run();
}

// The addresses of the calls, for addr2line.
[[noreturn]] void TellWhereAndAbort() {
  void* frames[kFrames];
  looking = true;
  std::signal(SIGABRT, SIG_DFL);
  backtrace_symbols_fd(frames, backtrace(frames, kFrames), STDERR_FILENO);
  std::abort();
}

[[noreturn]] void RunChild(const std::string& folder, int64_t steps, int64_t k, bool only_once) {
  alarm(kMaxSeconds);
  std::freopen((folder + "/errors.txt").c_str(), "w", stderr);
  std::set_terminate(TellWhereAndAbort);
  for (const int fault : {SIGSEGV, SIGABRT}) std::signal(fault, [](int) { TellWhereAndAbort(); });
  const std::unique_ptr<data::Dataset> dataset = Blobs(16, 3);
  failing = k;
  once = only_once;
  SetMallocHook(&FailsNow);
  absl::Status status = CatchOutOfMemory("the test", [&] { return Train(*dataset, folder, steps); });
  SetMallocHook(nullptr);
  SharedCount() = calls.load();
  if (!IsAlone()) _exit(kThreadsLeft);
  if (status.ok()) _exit(kDone);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(absl::IsResourceExhausted(status) ? kOutOfMemory : kOtherError);
}

// Returns how the process ended; kDone or kOutOfMemory are well.
int Run(const std::string& folder, int64_t steps, int64_t k, bool only_once) {
  const pid_t child = fork();
  if (child == 0) RunChild(folder, steps, k, only_once);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void ExpectWholeCheckpoints(const std::string& folder) {
  const auto files = io::ListCheckpoints(CheckpointFolder(folder));
  if (!files.ok()) return;  // it had not come to that
  for (const io::CheckpointFile& file : *files) {
    const absl::Status loaded = io::LoadCheckpoint(file.path).status();
    EXPECT_EQ(loaded, absl::OkStatus()) << file.path;
  }
}

// The metrics file without times, which differ.
std::string Metrics(const std::string& folder) {
  std::ifstream file(folder + "/metrics.jsonl");
  std::string text;
  for (std::string line; std::getline(file, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    for (const char* key :
         {"examples_per_second", "seconds_input", "seconds_step", "seconds_evaluate", "seconds_other"})
      json.erase(key);
    text += json.dump() + "\n";
  }
  return text;
}

// Goes on to the end without failures. Each step must be in the metrics once, and the last checkpoint have the bytes of
// the undisturbed run's.
void ExpectToGoOn(const std::string& folder, const std::string& undisturbed, int64_t steps) {
  ASSERT_EQ(Run(folder, steps, INT64_MAX, true), kDone) << Contents(folder + "/errors.txt");
  EXPECT_EQ(Metrics(folder), Metrics(undisturbed));
  const std::string last = CheckpointFolder("") + "/latest";
  EXPECT_EQ(Contents(folder + "/" + last), Contents(undisturbed + "/" + last));
}

// `prepare`: steps that are trained, without failures, before those in which allocations fail.
void TryAllocations(int64_t prepare, int64_t steps) {
  FindExcludedLibraries();
  ASSERT_GT(excluded_count, 0);
  SharedCount() = 0;  // made before the processes that share it
  void* frames[1];
  backtrace(frames, 1);  // the first call loads a library
  const char* const wanted = std::getenv("BELFRY_ALLOCATIONS");
  const bool all = wanted != nullptr && std::string(wanted) == "all";
  const TemporaryFolder prepared;
  if (prepare > 0) {
    ASSERT_EQ(Run(prepared.path(), prepare, INT64_MAX, true), kDone) << Contents(prepared / "errors.txt");
  }
  const auto copy_prepared = [&](const TemporaryFolder& folder) {
    if (prepare == 0) return;
    std::filesystem::copy(prepared.path(), folder.path(),
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  };
  const TemporaryFolder undisturbed;
  copy_prepared(undisturbed);
  ASSERT_EQ(Run(undisturbed.path(), steps, INT64_MAX, true), kDone);
  const int64_t count = SharedCount();
  const auto run = [&](int64_t k, bool only_once) {
    const TemporaryFolder folder;
    copy_prepared(folder);
    const int ending = Run(folder.path(), steps, k, only_once);
    EXPECT_TRUE(ending == kDone || ending == kOutOfMemory)
        << "allocation " << k << (only_once ? "" : " and those after it") << " failed, ended with " << ending << ":\n"
        << Contents(folder / "errors.txt");
    ExpectWholeCheckpoints(folder.path());
    SCOPED_TRACE(absl::StrCat("after allocation ", k, only_once ? "" : " and those after it", " failed"));
    ExpectToGoOn(folder.path(), undisturbed.path(), steps);
    return ending;
  };
  ASSERT_GT(count, 1000);
  FreshRandom random;
  int failed = 0;
  for (int64_t k = 1; k <= count; k = all ? k + 1 : k + random.Between(1, 2 * count / kSamples)) {
    for (const bool only_once : {true, false}) failed += run(k, only_once) == kOutOfMemory ? 1 : 0;
  }
  EXPECT_GT(failed, 0);
  std::printf("%ld allocations; failures ended %d runs\n", static_cast<long>(count), failed);
}

TEST(FailingAllocator, OfANewRun) { TryAllocations(0, 3); }

TEST(FailingAllocator, OfARunThatGoesOn) { TryAllocations(2, 3); }

}  // namespace
}  // namespace belfry::trainers
