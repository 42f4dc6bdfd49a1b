// The progress of a run on standard output, as a callback.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainers/callbacks/callback.h"
#include "trainers/callbacks/progress.h"

namespace belfry::trainers {

struct ProgressCallbackOptions {
  bool quiet = false;
  std::string unit = "examples";      // counted by the rate: "tokens/s"
  std::string examples = "examples";  // counted by evaluations
  int64_t units_per_example = 1;
  std::string resume_note = {};  // printed when the run resumes
};

// Shows the progress line, the results of evaluations and all messages. Task 0 alone prints.
class ProgressCallback final : public Callback {
 public:
  explicit ProgressCallback(ProgressCallbackOptions options) : options_(std::move(options)) {}
  absl::Status OnStart(TrainingState& state) override;
  absl::Status OnStep(TrainingState& state) override;
  absl::Status OnEvaluation(TrainingState& state) override;
  absl::Status OnEnd(TrainingState& state) override;
  void OnMessage(absl::string_view text) override { progress_->Print(text); }
  bool WantsResults(int64_t step) override { return due_ = step + 1 == total_ || progress_->Due(); }

 private:
  const ProgressCallbackOptions options_;
  std::optional<Progress> progress_;  // from OnStart on
  int64_t total_ = 0, examples_ = 0;
  absl::Duration evaluating_;  // until the last step
  bool due_ = false;           // the line shows this step
};

}  // namespace belfry::trainers
