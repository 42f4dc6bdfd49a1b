#include "trainers/callbacks/run_log.h"

#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/graph/graph_proto.h"
#include "ops/summary.h"

namespace belfry::trainers {

absl::StatusOr<RunLog> RunLog::Open(const std::string& metrics_file, const std::string& event_directory,
                                    const RunStart& start, const Values& evaluation) {
  const auto folder = [](const std::filesystem::path& file) { return file.lexically_normal().parent_path(); };
  const bool in_directory =
      !event_directory.empty() && folder(metrics_file) == folder(std::filesystem::path(event_directory) / "file");
  ASSIGN_OR_RETURN(MetricsWriter metrics,
                   MetricsWriter::Open(metrics_file, in_directory ? std::optional<RunStart>(start) : std::nullopt));
  RunLog log(std::move(metrics));
  if (event_directory.empty()) return log;
  ASSIGN_OR_RETURN(log.events_, io::SummaryWriter::Open(event_directory));
  // Checkpoints of older versions have no figures to write again.
  const bool keeps_evaluation = start.evaluated && evaluation.empty();
  RETURN_IF_ERROR(log.events_->WriteStart(start.step + (keeps_evaluation ? 1 : 0)));
  RETURN_IF_ERROR(log.WriteEvent(start.step, evaluation));
  return log;
}

absl::Status RunLog::WriteGraph(Session& session) {
  if (events_ == nullptr) return absl::OkStatus();
  return events_->WriteGraph(GraphToProto(session.graph(), [&](const Node& node) {
    const absl::StatusOr<const Device*> device = session.DeviceOf(node);
    return device.ok() ? (*device)->name().ToString() : "";
  }));
}

absl::Status RunLog::Write(int64_t step, const Values& values) {
  std::vector<std::pair<absl::string_view, double>> line = {{"step", static_cast<double>(step)}};
  line.insert(line.end(), values.begin(), values.end());
  RETURN_IF_ERROR(metrics_.Write(line));
  return WriteEvent(step, values);
}

absl::Status RunLog::WriteEvent(int64_t step, const Values& values) {
  if (events_ == nullptr) return absl::OkStatus();
  io::Summary summary;
  for (const auto& [name, value] : values) summary.AddScalar(absl::StrCat("run/", name), value);
  return events_->Write(step, summary);
}

absl::Status RunLog::WriteSummaries(int64_t step, absl::Span<const Output> summaries, absl::Span<const Tensor> values) {
  if (events_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ops::FetchedSummaries fetched, ops::ReadSummaries(summaries, values));
  return events_->Write(step, fetched.summary);
}

}  // namespace belfry::trainers
