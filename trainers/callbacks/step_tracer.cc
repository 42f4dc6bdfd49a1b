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

absl::Status StepTracer::Run(int64_t step, PreparedStep& prepared, absl::Span<const Tensor> feeds) {
  if (prepared_ == nullptr) {
    prepared_ = &prepared;
    writer_ = std::make_unique<TraceWriter>(prepared.plan(), devices_, file_);
  }
  StepTrace trace;
  RETURN_IF_ERROR(prepared.RunTraced(feeds, trace));
  AddHostSpan(absl::StrCat("step ", step), trace.begin, trace.end);
  writer_->AddStep(step, trace);
  steps_.push_back(std::move(trace));
  return absl::OkStatus();
}

void StepTracer::AddHostSpan(absl::string_view name, absl::Time begin, absl::Time end) {
  file_.AddSpan(host_row_, name, "host", begin, end);
}

absl::StatusOr<std::string> StepTracer::Finish() {
  if (prepared_ == nullptr) return std::string("No step was traced.\n");
  std::string text = TraceTable(prepared_->plan(), devices_, steps_);
  if (options_.file.empty()) return text;
  RETURN_IF_ERROR(io::WriteFile(options_.file, file_.ToJson()));
  return absl::StrCat(text, "\nTrace: ", options_.file, ", for ui.perfetto.dev or chrome://tracing\n");
}

}  // namespace belfry::trainers
