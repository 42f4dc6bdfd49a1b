#include "trainers/callbacks/step_tracer.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry::trainers {

absl::StatusOr<TraceOptions> ParseTrace(absl::string_view steps) {
  const std::vector<absl::string_view> parts = absl::StrSplit(steps, '-');
  TraceOptions options;
  const bool numbers = parts.size() <= 2 && absl::SimpleAtoi(parts.front(), &options.first) &&
                       absl::SimpleAtoi(parts.back(), &options.last);
  if (numbers && options.first >= 0 && options.first <= options.last) return options;
  return absl::InvalidArgumentError(absl::StrCat("'", steps, "' is not a range of steps such as 100-110"));
}

StepTracer::StepTracer(const DeviceSet& devices, TraceOptions options)
    : devices_(devices), options_(std::move(options)), host_row_(file_.AddRow("host", "training loop")) {}

absl::Status StepTracer::OnStep(TrainingState& state) {
  const int64_t step = state.steps - 1;
  if (WantsTrace(step)) AddHostSpan("next batch", state.input_began, state.began);
  if (state.trace != nullptr && (prepared_ == nullptr || prepared_ == state.prepared)) {
    if (prepared_ == nullptr) {
      prepared_ = state.prepared;
      writer_ = std::make_unique<TraceWriter>(prepared_->plan(), devices_, file_);
    }
    AddHostSpan(absl::StrCat("step ", step), state.trace->begin, state.trace->end);
    writer_->AddStep(step, *state.trace);
    steps_.push_back(*state.trace);
  }
  return step >= options_.last ? Finish(state) : absl::OkStatus();
}

absl::Status StepTracer::OnEvaluation(TrainingState& state) {
  if (WantsTrace(state.steps)) AddHostSpan("evaluate", state.began, state.ended);
  return absl::OkStatus();
}

absl::Status StepTracer::OnSave(TrainingState& state) {
  if (WantsTrace(state.steps)) AddHostSpan("save", state.began, state.ended);
  return absl::OkStatus();
}

absl::Status StepTracer::OnEnd(TrainingState& state) { return state.status.ok() ? Finish(state) : absl::OkStatus(); }

void StepTracer::AddHostSpan(absl::string_view name, absl::Time begin, absl::Time end) {
  if (!finished_) file_.AddSpan(host_row_, name, "host", begin, end);
}

absl::Status StepTracer::Finish(const TrainingState& state) {
  if (finished_) return absl::OkStatus();
  finished_ = true;
  if (prepared_ == nullptr) {
    state.Print("No step was traced.\n");
    return absl::OkStatus();
  }
  std::string text = TraceTable(prepared_->plan(), devices_, steps_);
  if (!options_.file.empty()) {
    RETURN_IF_ERROR(io::WriteFile(options_.file, file_.ToJson()));
    absl::StrAppend(&text, "\nTrace: ", options_.file, ", for ui.perfetto.dev or chrome://tracing\n");
  }
  state.Print(text);
  return absl::OkStatus();
}

}  // namespace belfry::trainers
