#include "trainers/callbacks/early_stopping.h"

#include "absl/strings/str_cat.h"
#include "framework/base/units.h"

namespace belfry::trainers {

absl::Status EarlyStopping::OnStart(TrainingState& state) { return OnEvaluation(state); }

absl::Status EarlyStopping::OnEvaluation(TrainingState& state) {
  if (const int64_t since = state.best.evaluations_since(); since >= patience_) {
    state.End(absl::StrCat("nothing better in ", Counted(since, "evaluation")));
  }
  return absl::OkStatus();
}

}  // namespace belfry::trainers
