// Replays of a run against its record, and comparisons of two runs.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "trainers/audit/replayer.h"
#include "trainers/audit/run_record.h"

namespace belfry::trainers {

struct Comparison {
  bool same = false;
  std::string text;  // for a person, of one line or several
};

// Repeats the steps between the checkpoints around `step`, which counts from 0: from the last existing one before
// it to the first recorded one after it, and compares batches and variables with the record. OutOfRange: the
// run has no such step, or no checkpoint after it. Errors: also those of Replayer::Run.
absl::StatusOr<Comparison> ReplayAround(const RunRecord& run, int64_t step, Replayer& replayer);

// Finds the first step in which two runs differ: by their records, between two checkpoints; then step by step, by a
// replay of each from the last checkpoint that both have; then the first node of that step that computes something
// else, by a further replay of each. At most four replays. FailedPrecondition: no batch differs, and no checkpoints can
// be compared. Errors: also those of Replayer::Run.
absl::StatusOr<Comparison> CompareRuns(const RunRecord& a, const RunRecord& b, Replayer& replayer);

}  // namespace belfry::trainers
