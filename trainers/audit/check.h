// Checks of the files of a run against its chain.
#pragma once

#include <string>
#include <vector>

#include "trainers/audit/run_record.h"

namespace belfry::trainers {

struct CheckedRun {
  std::string summary;                // "1204 records of 2000 steps; 5 of 21 checkpoints, 3 logs and 6 files of data"
  std::vector<std::string> problems;  // each names the file, and the record, tensor or lines in it
  std::vector<std::string> notes;     // on what could not be checked
};

// Reads all checkpoints, logs and files of data that the chain has digests of.
CheckedRun CheckRun(const RunRecord& run);

}  // namespace belfry::trainers
