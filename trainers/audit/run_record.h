// The contents of a run's chain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainers/ledger/chain_file.h"
#include "trainers/ledger/recorded_log.h"

namespace belfry::trainers {

// The beginning of a run, or of the rest of one.
struct RecordedStart {
  int64_t step = 0;
  std::string program, folder, version;
  std::vector<std::string> arguments;  // with the program's name
  std::vector<std::string> devices;    // "CPU:0: 2 threads of AMD EPYC 7B13"
  int64_t tasks = 1, towers = 1;
  std::map<std::string, std::string> settings;
};

struct RecordedCheckpoint {
  std::string file, header, weights;  // the name of the file; HeaderDigest and WeightsDigest
  size_t line = 0;                    // of the chain, from 1
};

// Steps count those that are done, except that a batch has the step, from 0, that trained on it.
struct RunRecord {
  std::string directory;
  size_t records = 0;
  std::vector<std::string> damage;  // of the chain itself: "chain.jsonl, line 12: ..."
  std::vector<std::string> found;   // what was not as recorded when the run went on
  std::vector<RecordedStart> starts;
  std::map<int64_t, RecordedCheckpoint> checkpoints;
  std::set<int64_t> saves;                       // steps after which a checkpoint was about to be written
  int64_t last_save = -1, last_checkpoint = -1;  // the steps of the last of these records; -1: none
  std::map<int64_t, std::string> batches;
  std::map<std::string, std::vector<std::string>> plans;   // digests by purpose, "training"
  std::map<std::string, std::vector<RecordedBytes>> logs;  // by name in the directory, ascending, without overlaps
  std::map<std::string, std::vector<RecordedBytes>> data;  // by path: as it was at each start
  std::vector<std::string> notes;
  int64_t steps = 0;   // as far as there are records
  bool ended = false;  // by its end or by a signal

  // The last start from which `step` was done; null if there is none.
  const RecordedStart* StartOf(int64_t step) const;
};

// The records of intact lines. Lines that are damaged are only named.
RunRecord ParseRun(const std::string& directory, absl::Span<const ChainLine> lines);
// NotFound: there is no chain in the directory. Errors: those of ReadChain.
absl::StatusOr<RunRecord> ReadRun(const std::string& directory);

}  // namespace belfry::trainers
