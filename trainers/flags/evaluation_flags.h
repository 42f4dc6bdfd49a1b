// Flags of programs with evaluations: their interval, the early end of a run, the threads that read examples, and the
// cost of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "trainers/flags/flags.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

struct EvaluationFlags {
  explicit EvaluationFlags(Flags& flags);

  Flags& all;
  int64_t evaluate_every = 0, evaluate_every_epochs = 0, patience = 0, memory_limit = 0;
  bool restore_best = false, quiet = false, explain = false, find_learning_rate = false;
  std::optional<int> data_threads = {};
  std::string export_file = {};

  // Sets what the flags say: TrainingProgram::Configure calls it. `evaluates_anyway`: the program evaluates during the
  // run also without --evaluate_every. InvalidArgument names the flag.
  absl::Status Take(ProgramRun& run, bool evaluates_anyway = false) const;
};

}  // namespace belfry::trainers
