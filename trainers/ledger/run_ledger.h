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
#include "framework/io/safetensors.h"
#include "trainers/callbacks/callback.h"
#include "trainers/ledger/chain_file.h"
#include "trainers/ledger/object_text.h"

namespace belfry::trainers {

// The chain's file in the directory of a run.
inline constexpr char kChainFile[] = "chain.jsonl";

// True for metrics.jsonl, trace.json and TensorBoard's event files.
bool IsLogName(absl::string_view name);
// Names, in the directory of a run, of the logs there, which records of the chain cover.
std::vector<std::string> LogNames(const std::string& directory);

struct RunLedgerOptions {
  std::string directory = {};                         // of the run, in task 0; empty: no chain
  io::Metadata settings = {};                         // TrainerOptions::metadata
  std::vector<std::string> data_paths = {};           // TaskOptions::data_paths
  absl::Duration timeout = absl::InfiniteDuration();  // of exchanges between tasks
};

// Writes the records in task 0, if the run has a directory; the other tasks, each of which has a RunLedger, hand it the
// digests of their parts of batches. Comes after the other callbacks, whose logs it reads. Costs a run a pass over each
// batch and, at a checkpoint, the reading of its header and of new lines of the logs. Errors: those of files and of
// exchanges between tasks.
class RunLedger final : public Callback {
 public:
  explicit RunLedger(RunLedgerOptions options) : options_(std::move(options)) {}

  // When a run resumes, its chain is cut back to the record of the checkpoint; without one it begins anew. Damage
  // that it finds is recorded: ResumeChain. OnStart calls it, unless it was called before the logs were cut back, which
  // then are not known to be damaged.
  absl::Status Begin(TrainingState& state);
  absl::Status OnStart(TrainingState& state) override;
  absl::Status OnPrepared(TrainingState& state, absl::string_view name, const Plan& plan) override;
  void OnBatch(const data::Batch& batch) override;
  absl::Status OnStep(TrainingState& state) override {
    return batches_.size() < kBatches ? absl::OkStatus() : Flush(state.world);
  }
  absl::Status BeforeSave(TrainingState& state, bool alone) override;
  absl::Status OnWritten(TrainingState& state) override { return AddCheckpoint(state.written); }
  absl::Status OnEnd(TrainingState& state) override;

 private:
  static constexpr size_t kBatches = 1000;  // the most in a record

  bool writes() const { return writer_.has_value(); }
  absl::Status Open(const TrainingState& state);
  // Writes a record with these members and `more`.
  absl::Status Append(absl::string_view kind, int64_t step, const ObjectText& more = {});
  absl::Status AddStart(const TrainingState& state);
  absl::Status AddData(absl::Span<const std::string> paths);
  absl::Status AddCheckpoint(const std::string& path);
  // Records the batches that have no record yet.
  absl::Status Flush(World& world);
  // Writes the digests of what the logs have beyond the records, with `whole` also for logs that are rewritten.
  absl::Status AddLogs(bool whole);

  const RunLedgerOptions options_;
  bool begun_ = false;   // by Begin, for the next OnStart
  bool active_ = false;  // task 0 has a chain
  std::optional<ChainWriter> writer_;
  int64_t steps_ = 0;                        // those that records of batches reach to
  std::vector<uint64_t> batches_;            // this task's, since then
  std::map<std::string, uint64_t> covered_;  // by a log's name, the bytes that have records
};

}  // namespace belfry::trainers
