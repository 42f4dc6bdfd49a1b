// Flags of programs with evaluations: their interval, the early end of a run, the threads that read examples, and the
// cost of a run.
#pragma once

#include "absl/status/status.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

// Sets what the flags say: TrainingProgram::Configure calls it. `evaluates_anyway`: the program evaluates during the
// run also without --evaluate_every. InvalidArgument names the flag.
absl::Status TakeEvaluationFlags(ProgramRun& run, bool evaluates_anyway = false);

// --restore_best.
bool RestoresBest();

}  // namespace belfry::trainers
