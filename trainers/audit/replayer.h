// Starting the program of a recorded run again, to repeat some of its steps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/audit/run_record.h"

namespace belfry::trainers {

// The variables after some steps, and the loss of the last of them.
struct ReplayedState {
  double loss = 0;
  std::string weights;                         // WeightsDigest
  std::map<std::string, std::string> tensors;  // LinesOf
};

// A result of a node: see Replay (trainers/ledger/replay.h).
struct ReplayedResult {
  int64_t run = 0, index = 0, output = 0;
  std::string name, what, device, shape, digest;
};

struct ReplayedSteps {
  std::map<int64_t, ReplayedState> states;  // by steps done
  std::vector<ReplayedResult> results;      // in an order in which each comes after those that it is computed from
  RunRecord record;                         // its own chain
};

// Repeats steps in processes of its own, each in a folder that is removed afterwards. They end with this process;
// folders of a process that was killed are removed by a later one.
class Replayer {
 public:
  // `flags`: further flags of the program, which come after the recorded ones: "--devices=cpu:4".
  explicit Replayer(std::vector<std::string> flags) : flags_(std::move(flags)) {}

  // Runs steps [from, until), from the checkpoint of `from` or, for the first step of the run, from its initial values.
  // `results_of`: the step whose nodes' results are wanted; -1: none. NotFound: the program is not there.
  // Cancelled: a signal asked to stop (StopSignals). FailedPrecondition: the chain is damaged, the run went on with
  // other flags in between, or the replay failed, with what it printed.
  absl::StatusOr<ReplayedSteps> Run(const RunRecord& run, int64_t from, int64_t until, int64_t results_of = -1);

  // Processes so far.
  int runs() const { return runs_; }

 private:
  const std::vector<std::string> flags_;
  int runs_ = 0;
};

// The path of the checkpoint after `steps` steps; empty if it is not there, or the chain has no record of it.
std::string PathOfCheckpoint(const RunRecord& run, int64_t steps);
// The last number of steps, at most `steps`, from which a replay can begin; -1 if there is none.
int64_t ReplayFrom(const RunRecord& run, int64_t steps);

// The command line that repeats a run in `directory`, by `request`: without flags that would write elsewhere. A run of
// several processes is repeated in one that has all towers.
std::vector<std::string> ReplayArguments(const RecordedStart& start, const std::string& directory,
                                         const std::string& request, const std::vector<std::string>& flags);

}  // namespace belfry::trainers
