// Flags of programs with evaluations: their interval, the early end of a run, the threads that read examples, and the
// cost of a run.
#pragma once

#include "absl/status/status.h"
#include "trainers/program/training_program.h"

namespace belfry::trainers {

// Sets what the flags say: TrainingProgram::Configure calls it. InvalidArgument names the flag.
absl::Status TakeEvaluationFlags(ProgramRun& run);

}  // namespace belfry::trainers
