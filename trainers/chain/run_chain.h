// The chain of records that a run keeps beside its log, for the program `audit`: docs/audit.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/collective/world.h"
#include "framework/compiler/plan.h"
#include "framework/data/batch_source.h"
#include "framework/device/device_set.h"
#include "framework/io/safetensors.h"
#include "trainers/chain/chain_file.h"
#include "trainers/chain/object_text.h"

namespace belfry::trainers {

// The chain's file in the directory of a run.
inline constexpr char kChainFile[] = "chain.jsonl";

// Names, in the directory of a run, of the logs there, which records of the chain cover.
std::vector<std::string> LogNames(const std::string& directory);

// The beginning of a run, or of the rest of one.
struct ChainStart {
  int64_t steps = 0;                       // done so far
  int64_t total = 0;                       // TrainerOptions::steps
  std::string resumed_from = {};           // path of the checkpoint; empty: none
  int towers = 0;                          // the number in all processes
  const io::Metadata* settings = nullptr;  // TrainerOptions::metadata
  std::vector<std::string> data_paths = {};
};

// Writes the records in task 0, if the run has a directory; the other tasks hand it the digests of their parts of
// batches. All tasks call its functions at the same point, except Written and End. Costs a run a pass over each batch
// and, at a checkpoint, the reading of its header and of new lines of the logs. Borrows its arguments. Errors: those of
// files and of exchanges between tasks. Not thread-safe.
class RunChain {
 public:
  // `directory`: of the run, in task 0; empty: no chain.
  RunChain(World& world, const DeviceSet& devices, std::string directory)
      : world_(world), devices_(devices), directory_(std::move(directory)) {}

  // Opens the chain. When a run resumes, its chain is cut back to the record of the checkpoint; without one it begins
  // anew. Other logs of the directory have been opened, and cut back, by now.
  absl::Status Start(const ChainStart& start, absl::Time deadline);
  // Records a plan that the run will follow, with its purpose: "training".
  absl::Status AddPlan(absl::string_view name, const Plan& plan);
  // Adds the batch of the step that has just run.
  void AddBatch(const data::Batch& batch);
  // True if enough batches have no record yet for Flush to be due.
  bool due() const { return batches_.size() >= kBatches; }
  // Records the batches that have no record yet.
  absl::Status Flush(absl::Time deadline);
  // Call before the checkpoint after `steps` steps is written. `alone`: this task has failed, and no other one saves.
  absl::Status BeforeSave(int64_t steps, bool alone, absl::Time deadline);
  // Records the checkpoint at `path`, which has been written.
  absl::Status Written(const std::string& path);
  // Ends the chain. `stopped`: the signal that stopped the run; 0: none.
  absl::Status End(int64_t steps, int stopped);

 private:
  static constexpr size_t kBatches = 1000;  // the most in a record

  bool writes() const { return writer_.has_value(); }
  absl::Status Open(const ChainStart& start);
  // Writes a record with these members and `more`.
  absl::Status Append(absl::string_view kind, int64_t step, const ObjectText& more = {});
  absl::Status AddStart(const ChainStart& start);
  absl::Status AddData(absl::Span<const std::string> paths);
  // Writes the digests of what the logs have beyond the records, with `whole` also for logs that are rewritten.
  absl::Status AddLogs(bool whole);

  World& world_;
  const DeviceSet& devices_;
  const std::string directory_;
  bool active_ = false;  // task 0 has a chain
  std::optional<ChainWriter> writer_;
  int64_t steps_ = 0;                        // those that records of batches reach to
  std::vector<uint64_t> batches_;            // this task's, since then
  std::map<std::string, uint64_t> covered_;  // by a log's name, the bytes that have records
};

}  // namespace belfry::trainers
