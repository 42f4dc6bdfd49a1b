// The place in a chain at which a run goes on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::trainers {

struct ResumedChain {
  uint64_t size = 0;                        // of the records that are kept; 0: there is none of the step
  std::string hash = {};                    // of the last of them
  std::map<std::string, uint64_t> covered;  // by a log's name, the bytes that they cover
  // Records of what is not as the chain says, which going on would cover up: the logs, the rest of the chain, and those
  // of earlier times that are not kept.
  std::vector<std::string> damage;
};

// Finds the last record of that kind, "save" or "end", and step in the chain in `directory`. Looks at the logs before
// they are cut back to the step. `checkpoint`: from which the run goes on; empty: none. FailedPrecondition: it is not
// the one that was recorded. Other errors: those of ReadChain except NotFound, and of reading the checkpoint.
absl::StatusOr<ResumedChain> ResumeChain(const std::string& directory, absl::string_view kind, int64_t step,
                                         const std::string& checkpoint);

}  // namespace belfry::trainers
