// Writing event files for TensorBoard.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/io/event_file.h"
#include "framework/io/summary.h"

namespace belfry::io {

// Appends events to a new file "<directory>/events.out.tfevents.<seconds>.<host>.<pid>.<n>"; point TensorBoard at the
// directory or at a parent. Each event is passed to the system as one whole record before its call returns.
// Thread-safe: events of several threads are written one after the other.
//
// Errors of all writing calls name the file: ResourceExhausted if the disk is full, Unavailable for the system's other
// reasons. The file then holds nothing of the event, and later events may succeed.
class SummaryWriter {
 public:
  // Creates the directory if it is missing, and the file, whose first record is the format's version, "brain.Event:2".
  // It is synced every two minutes, the most that a power failure can cost.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& directory);

  // Writes the values of step `step`; nothing if there are none.
  absl::Status Write(int64_t step, const Summary& summary);
  absl::Status WriteScalar(int64_t step, absl::string_view tag, double value);
  // Writes a serialised GraphDef (GraphToProto), for the graph page.
  absl::Status WriteGraph(absl::string_view graph_def);
  // Marks that this program starts at `step`. TensorBoard then drops what an earlier run, which this one resumes from a
  // checkpoint, had written for this and later steps.
  absl::Status WriteStart(int64_t step);
  // Returns once everything is on the disk.
  absl::Status Sync();

  const std::string& path() const { return path_; }

 private:
  explicit SummaryWriter(RecordWriter file);
  absl::Status WriteRecord(const std::string& event);

  const std::string path_;
  Mutex mutex_;
  RecordWriter file_ ABSL_GUARDED_BY(mutex_);
  absl::Time synced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace belfry::io
