#include "framework/io/summary_writer.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "framework/base/host_name.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/io/event.pb.h"

namespace belfry::io {
namespace {

constexpr absl::Duration kSyncEvery = absl::Minutes(2);

constexpr char kFileVersion[] = "brain.Event:2";

proto::Event EventAt(absl::Time time, int64_t step) {
  proto::Event event;
  event.set_wall_time(absl::ToDoubleSeconds(time - absl::UnixEpoch()));
  event.set_step(step);
  return event;
}

// Several programs or threads may start in the same second, and one program may write several files, so the name is
// made unique with a number.
absl::StatusOr<RecordWriter> CreateFile(const std::string& directory, absl::Time now) {
  const std::string stem = absl::StrFormat("%s/events.out.tfevents.%010d.%s.%d", directory, absl::ToUnixSeconds(now),
                                           HostName(), static_cast<int>(getpid()));
  for (int n = 0;; ++n) {
    absl::StatusOr<RecordWriter> file = RecordWriter::Create(absl::StrCat(stem, ".", n));
    if (file.ok() || !absl::IsAlreadyExists(file.status())) return file;
  }
}

}  // namespace

SummaryWriter::SummaryWriter(RecordWriter file) : path_(file.path()), file_(std::move(file)), synced_(SteadyNow()) {}

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Open(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("Cannot create the directory ", directory, " for summaries: ", error.message()));
  }
  const absl::Time now = absl::Now();
  ASSIGN_OR_RETURN(RecordWriter file, CreateFile(directory, now));
  std::unique_ptr<SummaryWriter> writer(new SummaryWriter(std::move(file)));
  proto::Event event = EventAt(now, 0);
  event.set_file_version(kFileVersion);
  RETURN_IF_ERROR(writer->WriteRecord(event.SerializeAsString()));
  return writer;
}

absl::Status SummaryWriter::Write(int64_t step, const Summary& summary) {
  if (summary.empty()) return absl::OkStatus();
  proto::Event event = EventAt(absl::Now(), step);
  event.set_summary(summary.bytes());
  return WriteRecord(event.SerializeAsString());
}

absl::Status SummaryWriter::WriteScalar(int64_t step, absl::string_view tag, double value) {
  Summary summary;
  summary.AddScalar(tag, value);
  return Write(step, summary);
}

absl::Status SummaryWriter::WriteGraph(absl::string_view graph_def) {
  proto::Event event = EventAt(absl::Now(), 0);
  event.set_graph_def(std::string(graph_def));
  return WriteRecord(event.SerializeAsString());
}

absl::Status SummaryWriter::WriteStart(int64_t step) {
  proto::Event event = EventAt(absl::Now(), step);
  event.mutable_session_log()->set_status(proto::SessionLog::START);
  return WriteRecord(event.SerializeAsString());
}

absl::Status SummaryWriter::Sync() {
  const MutexLock lock(mutex_);
  synced_ = SteadyNow();
  return file_.Sync();
}

absl::Status SummaryWriter::WriteRecord(const std::string& event) {
  const MutexLock lock(mutex_);
  RETURN_IF_ERROR(file_.Write(event));
  const absl::Time now = SteadyNow();
  if (now - synced_ < kSyncEvery) return absl::OkStatus();
  synced_ = now;
  return file_.Sync();
}

}  // namespace belfry::io
