// The records that a run has written, and those that it owes, about the step that a checkpoint is saved after.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/io/safetensors.h"

namespace belfry::trainers {

// The figures of a line of the metrics file, without its step.
using Figures = std::vector<std::pair<std::string, double>>;

// An error after a step may keep its line or its evaluation from being written. The variables are those of an
// undisturbed run nevertheless, so they are saved, with a note of what is missing; a run that resumes there makes it up
// before its first step. A value type.
struct StepRecords {
  std::optional<Figures> unlogged;  // the line of the step, if it is due but not written
  bool unevaluated = false;         // an evaluation is due that was not done, or whose line is not written
  Figures evaluation;               // of the evaluation after this step, as in the metrics file; empty: none

  // Keys: "trainer.unlogged", "trainer.unevaluated", "trainer.evaluation".
  void Store(io::Metadata& metadata) const;
  static StepRecords Load(const io::Metadata& metadata);
};

}  // namespace belfry::trainers
