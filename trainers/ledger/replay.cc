#include "trainers/ledger/replay.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/checksum.h"
#include "framework/io/file.h"
#include "trainers/ledger/json_impl.h"
#include "trainers/ledger/object_text.h"
#include "trainers/ledger/weights_digest.h"

namespace belfry::trainers {

absl::StatusOr<ReplayRequest> ReplayRequest::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path, io::kMaxNoteBytes));
  const Json json = ParseObject(text);
  ReplayRequest request{
      .until = NumberIn(json, "until"), .results_of = NumberIn(json, "results_of"), .report = StringIn(json, "report")};
  if (request.until >= 0 && !request.report.empty()) return request;
  return absl::InvalidArgumentError(absl::StrCat(path, ": no request of the program audit"));
}

absl::Status ReplayRequest::Write(const std::string& path) const {
  return io::WriteFile(path,
                       ObjectText().Add("until", until).Add("results_of", results_of).Add("report", report).text());
}

// The session may outlive the run.
absl::Status Replay::OnStart(TrainingState& state) {
  ASSIGN_OR_RETURN(request_, ReplayRequest::Read(path_));
  report_.reset(std::fopen(request_.report.c_str(), "w"));
  if (report_ == nullptr) return io::SystemError(request_.report, "cannot write the report of a replay", errno);
  if (request_.results_of >= 0) {
    const DeviceSet& devices = state.session.devices();
    state.session.Observe([replay = shared_from_this(), &devices](const NodeResult& result) {
      if (replay->observes_.load()) replay->AddResult(result, devices);
    });
  }
  return AfterSteps(state);
}

absl::Status Replay::Write(const std::string& line) {
  if (std::fputs(line.c_str(), report_.get()) >= 0 && std::fputc('\n', report_.get()) >= 0 &&
      std::fflush(report_.get()) == 0) {
    return absl::OkStatus();
  }
  return io::SystemError(request_.report, "cannot write the report of a replay", errno);
}

void Replay::AddResult(const NodeResult& result, const DeviceSet& devices) {
  const std::string digest = io::DigestText({static_cast<const char*>(result.data), result.spec.bytes()});
  const MutexLock lock(mutex_);
  if (first_run_ < 0) first_run_ = static_cast<int64_t>(result.run);
  results_.push_back(ObjectText()
                         .Add("run", static_cast<int64_t>(result.run) - first_run_)
                         .Add("index", int64_t{result.index})
                         .Add("output", int64_t{result.output})
                         .Add("name", result.node.name)
                         .Add("what", Describe(result.node))
                         .Add("device", devices.device(result.device).name().ToLocalString())
                         .Add("shape", absl::StrCat(DTypeName(result.spec.dtype), " ", result.spec.shape.ToString()))
                         .Add("digest", digest)
                         .text());
}

absl::Status Replay::AfterSteps(TrainingState& state) {
  observes_.store(false);
  RETURN_IF_ERROR(snapshot_.Take(state.session));
  const TensorLines tensors = LinesOf(snapshot_.tensors());
  RETURN_IF_ERROR(Write(ObjectText()
                            .Add("steps", state.steps)
                            .Add("loss", state.results.loss)
                            .Add("weights", WeightsDigest(tensors))
                            .Add("tensors", tensors)
                            .text()));
  {
    const MutexLock lock(mutex_);
    for (const std::string& line : results_) RETURN_IF_ERROR(Write(line));
    results_.clear();
  }
  const bool done = state.steps >= request_.until;
  observes_.store(!done && state.steps == request_.results_of);
  if (done) state.End("the replay is done");
  return absl::OkStatus();
}

}  // namespace belfry::trainers
