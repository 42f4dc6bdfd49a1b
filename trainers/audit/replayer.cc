#include "trainers/audit/replayer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "trainers/ledger/json_impl.h"
#include "trainers/ledger/replay.h"
#include "trainers/ledger/run_ledger.h"
#include "trainers/loop/run_directory.h"
#include "trainers/loop/stop_signals.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;

// Each has a value. They write elsewhere, or end the run early.
constexpr absl::string_view kDropped[] = {"train_dir", "metrics_file", "export", "trace",
                                          "dump_plan", "max_run_time", "resume", "replay"};

absl::string_view NameOf(absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "-")) return "";
  absl::ConsumePrefix(&argument, "-");
  return argument.substr(0, argument.find('='));
}

constexpr char kFolder[] = "belfry_audit_";
constexpr absl::Duration kPause = absl::Milliseconds(10);

// A temporary folder of this process, which holds a lock on it and removes it at the end.
class ReplayFolder {
 public:
  static absl::StatusOr<std::unique_ptr<ReplayFolder>> Make() {
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    std::string path = (temporary / absl::StrCat(kFolder, "XXXXXX")).string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError("cannot make a folder for a replay in the temporary directory (TMPDIR)");
    }
    std::unique_ptr<ReplayFolder> made(new ReplayFolder(path));
    RemoveStale(temporary);
    return made;
  }
  ReplayFolder(const ReplayFolder&) = delete;
  ReplayFolder& operator=(const ReplayFolder&) = delete;
  ~ReplayFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    ::close(lock_);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ReplayFolder(std::string path) : path_(std::move(path)), lock_(Lock(path_)) {}

  // -1 if somebody else holds it.
  static int Lock(const std::string& path) {
    const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || ::flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
    ::close(folder);
    return -1;
  }
  // Removes folders that killed processes left. A new one may not be locked yet.
  static void RemoveStale(const fs::path& temporary) {
    constexpr auto kNew = std::chrono::minutes(1);
    const absl::StatusOr<std::vector<std::string>> names = io::ListFolder(temporary.string());
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      if (!absl::StartsWith(name, kFolder)) continue;
      std::error_code error;
      const auto changed = fs::last_write_time(temporary / name, error);
      if (error || fs::file_time_type::clock::now() - changed < kNew) continue;
      const int lock = Lock((temporary / name).string());
      if (lock < 0) continue;
      fs::remove_all(temporary / name, error);
      ::close(lock);
    }
  }

  const std::string path_;
  const int lock_;
};

// Copies a checkpoint to the place where a run in `directory` looks for its latest one.
absl::Status PlaceCheckpoint(const std::string& path, const std::string& directory) {
  const fs::path folder = CheckpointFolder(directory), name = fs::path(path).filename();
  std::error_code error;
  fs::create_directories(folder, error);
  fs::copy_file(path, folder / name, error);
  if (!error) fs::create_symlink(name, folder / "latest", error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot copy ", path, " for a replay: ", error.message()));
}

// Turns a process that fork(2) has made into the program, which ends when `parent` does.
[[noreturn]] void Become(const std::string& program, const std::vector<char*>& argv, const std::string& folder,
                         const std::string& output, pid_t parent) {
  const int input = ::open("/dev/null", O_RDONLY);
  const int printed = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const bool ready = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == parent && input >= 0 && printed >= 0 &&
                     ::dup2(input, STDIN_FILENO) >= 0 && ::dup2(printed, STDOUT_FILENO) >= 0 &&
                     ::dup2(printed, STDERR_FILENO) >= 0 && ::chdir(folder.c_str()) == 0;
  if (ready) ::execv(program.c_str(), argv.data());
  dprintf(STDERR_FILENO, "cannot start %s: %s\n", program.c_str(), std::strerror(errno));
  ::_exit(127);
}

// Runs the program in `folder` with what it prints going to `output`. Returns the status that waitpid(2) gives.
// Cancelled: a signal asked to stop, and the program was ended.
absl::StatusOr<int> Execute(const std::string& program, const std::vector<std::string>& arguments,
                            const std::string& folder, const std::string& output) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return absl::NotFoundError(absl::StrCat(folder, ": no such folder; the run was started in it, and its flags may ",
                                            "name files there. Make it again to replay the run"));
  }
  if (::access(program.c_str(), X_OK) != 0) {
    return io::SystemError(program, "cannot start the program that trained", errno);
  }
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t self = ::getpid(), child = ::fork();
  if (child == 0) Become(program, argv, folder, output, self);
  if (child < 0) return io::SystemError(program, "cannot start the program that trained", errno);
  int status = 0;
  bool killed = false;
  while (true) {
    const pid_t ended = ::waitpid(child, &status, killed ? 0 : WNOHANG);
    if (ended < 0 && errno != EINTR) {
      return io::SystemError(program, "cannot wait for the program that trained", errno);
    }
    if (ended == child) break;
    if (StopSignals::noted() != 0) {
      ::kill(child, SIGKILL);
      killed = true;
    } else {
      absl::SleepFor(kPause);
    }
  }
  // A terminal sends the signal to both, so the program may have ended before it was noticed here.
  if (StopSignals::noted() == 0) return status;
  return absl::CancelledError(absl::StrCat("the replay was stopped by ", SignalName(StopSignals::noted())));
}

ReplayedResult ResultIn(const Json& line) {
  return {.run = NumberIn(line, "run"),
          .index = NumberIn(line, "index"),
          .output = NumberIn(line, "output"),
          .name = StringIn(line, "name"),
          .what = StringIn(line, "what"),
          .device = StringIn(line, "device"),
          .shape = StringIn(line, "shape"),
          .digest = StringIn(line, "digest")};
}

absl::Status ReadReport(const std::string& path, ReplayedSteps& steps) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path, kAnySize));
  for (const absl::string_view text_line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const Json line = ParseObject(text_line);
    if (!line.contains("steps")) {
      steps.results.push_back(ResultIn(line));
      continue;
    }
    ReplayedState& state = steps.states[NumberIn(line, "steps")];
    if (line.contains("loss") && line["loss"].is_number()) state.loss = line["loss"];
    state.weights = StringIn(line, "weights");
    const auto tensors = line.find("tensors");
    if (tensors == line.end() || !tensors->is_object()) continue;
    for (const auto& [name, tensor] : tensors->items()) {
      if (tensor.is_string()) state.tensors[io::UnescapeBytes(name)] = BytesOf(tensor);
    }
  }
  // Nodes of a plan are in such an order; the devices of a step write at the same time.
  std::stable_sort(steps.results.begin(), steps.results.end(), [](const ReplayedResult& a, const ReplayedResult& b) {
    return std::tie(a.run, a.index) < std::tie(b.run, b.index);
  });
  return absl::OkStatus();
}

std::string LastLines(const std::string& path) {
  constexpr size_t kLines = 10;
  const absl::StatusOr<std::string> text = io::ReadFile(path, kAnySize);
  if (!text.ok()) return "";
  const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  return absl::StrJoin(lines.end() - static_cast<std::ptrdiff_t>(std::min(kLines, lines.size())), lines.end(), "\n  ");
}

// The run went on with other flags between two steps.
absl::Status CheckSameFlags(const RunRecord& run, const RecordedStart& start, int64_t until) {
  for (const RecordedStart& later : run.starts) {
    if (later.step <= start.step || later.step >= until || later.settings == start.settings) continue;
    return absl::FailedPreconditionError(absl::StrCat(run.directory, " went on at step ", later.step,
                                                      " with other settings, and has no checkpoint from which steps "
                                                      "before or after it alone could be repeated"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string PathOfCheckpoint(const RunRecord& run, int64_t steps) {
  const auto found = run.checkpoints.find(steps);
  if (found == run.checkpoints.end()) return "";
  const fs::path path = fs::path(CheckpointFolder(run.directory)) / fs::path(found->second.file).filename();
  std::error_code error;
  return fs::is_regular_file(path, error) ? fs::absolute(path, error).string() : "";
}

int64_t ReplayFrom(const RunRecord& run, int64_t steps) {
  for (auto at = run.checkpoints.upper_bound(steps); at != run.checkpoints.begin();) {
    --at;
    if (!PathOfCheckpoint(run, at->first).empty()) return at->first;
  }
  return !run.starts.empty() && run.starts.front().step == 0 ? 0 : -1;
}

std::vector<std::string> ReplayArguments(const RecordedStart& start, const std::string& directory,
                                         const std::string& request, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {start.arguments.empty() ? start.program : start.arguments[0]};
  bool towers = start.tasks > 1;
  bool indirect = false;  // a file may name flags that are dropped here
  for (size_t i = 1; i < start.arguments.size(); ++i) {
    const std::string& argument = start.arguments[i];
    const absl::string_view name = NameOf(argument);
    const bool per_task = start.tasks > 1 && name == "micro_batches";
    if (per_task || std::find(std::begin(kDropped), std::end(kDropped), name) != std::end(kDropped)) {
      if (!absl::StrContains(argument, '=')) ++i;  // the value is an argument of its own
      continue;
    }
    if (name == "towers") towers = false;
    indirect |= name == "flagfile";
    arguments.push_back(argument);
  }
  if (towers) arguments.push_back(absl::StrCat("--towers=", start.towers));
  arguments.insert(arguments.end(),
                   {absl::StrCat("--train_dir=", directory), absl::StrCat("--replay_request=", request)});
  if (indirect) {  // the last value counts, and not every program has all of these flags
    arguments.insert(arguments.end(), {"--metrics_file=", "--export=", "--trace=", "--dump_plan=", "--max_run_time=inf",
                                       "--undefok=metrics_file,export,trace,dump_plan,max_run_time"});
  }
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return arguments;
}

absl::StatusOr<ReplayedSteps> Replayer::Run(const RunRecord& run, int64_t from, int64_t until, int64_t results_of) {
  if (!run.damage.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(run.directory, ": ", kChainFile,
                                                      " is damaged, so the program and the flags that it names are ",
                                                      "not run; replay from an intact copy of it"));
  }
  const RecordedStart* start = run.StartOf(from);
  if (start == nullptr) return absl::FailedPreconditionError(absl::StrCat(run.directory, ": no record of a start"));
  RETURN_IF_ERROR(CheckSameFlags(run, *start, until));
  const StopSignals signals;
  ASSIGN_OR_RETURN(const std::unique_ptr<ReplayFolder> made, ReplayFolder::Make());
  const std::string& folder = made->path();
  const std::string directory = folder + "/run", request = folder + "/request.json", output = folder + "/output";
  if (const std::string checkpoint = PathOfCheckpoint(run, from); !checkpoint.empty()) {
    RETURN_IF_ERROR(PlaceCheckpoint(checkpoint, directory));
  } else if (from != 0) {
    return absl::FailedPreconditionError(absl::StrCat(run.directory, ": the checkpoint of step ", from, " is gone"));
  }
  const ReplayRequest asked{.until = until, .results_of = results_of, .report = folder + "/report.jsonl"};
  RETURN_IF_ERROR(asked.Write(request));
  ++runs_;
  ASSIGN_OR_RETURN(const int status,
                   Execute(start->program, ReplayArguments(*start, directory, request, flags_), start->folder, output));
  const int exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (exit != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the replay of ", run.directory,
                     " failed: ", exit < 0 ? absl::StrCat("signal ", WTERMSIG(status)) : absl::StrCat("status ", exit),
                     "; it printed\n  ", LastLines(output)));
  }
  ReplayedSteps steps;
  RETURN_IF_ERROR(ReadReport(asked.report, steps));
  if (!steps.states.contains(from) || !steps.states.contains(until)) {
    return absl::FailedPreconditionError(absl::StrCat("the replay of ", run.directory, " did not run steps ", from,
                                                      " to ", until - 1, "; it printed\n  ", LastLines(output)));
  }
  ASSIGN_OR_RETURN(steps.record, ReadRun(directory));
  return steps;
}

}  // namespace belfry::trainers
