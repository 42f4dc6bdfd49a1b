#include "trainers/audit/check.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/base/units.h"
#include "framework/io/checkpoint_directory.h"
#include "framework/io/checksum.h"
#include "framework/io/file.h"
#include "trainers/ledger/run_ledger.h"
#include "trainers/ledger/weights_digest.h"
#include "trainers/loop/run_directory.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;

void CheckTensors(const std::string& path, std::vector<std::string>& problems) {
  const absl::StatusOr<io::SafetensorsFile> file = io::SafetensorsFile::Open(path);
  if (!file.ok()) {
    problems.emplace_back(file.status().message());
    return;
  }
  for (const io::TensorInfo& info : file->tensors()) {
    const absl::Status read = file->Read(info).status();
    if (!read.ok()) problems.emplace_back(read.message());
  }
}

// A checkpoint without a record. A kill may come between it and its record, but not before the one that announces it;
// those older than a chain that began anew have neither.
void CheckUnrecorded(const io::CheckpointFile& file, const RunRecord& run, CheckedRun& checked) {
  const bool covered = !run.starts.empty() && file.step >= run.starts.front().step;
  if (covered && !run.saves.contains(file.step)) {
    checked.problems.push_back(absl::StrCat(file.path, ": ", kChainFile, " has no record that it was about to be ",
                                            "written, so the end of ", kChainFile,
                                            " is missing or the checkpoint is not of this run"));
  } else {
    checked.notes.push_back(absl::StrCat(file.path, ": the chain has no record of it", run.ended ? "" : " yet"));
  }
}

// Its name tells it from another spelling of the same step.
bool IsRecorded(const io::CheckpointFile& file, const RunRecord& run) {
  const auto found = run.checkpoints.find(file.step);
  return found != run.checkpoints.end() && found->second.file == fs::path(file.path).filename();
}

void CheckCheckpoint(const io::CheckpointFile& file, const RunRecord& run, CheckedRun& checked) {
  if (!IsRecorded(file, run)) {
    CheckUnrecorded(file, run, checked);
  } else {
    const RecordedCheckpoint& recorded = run.checkpoints.at(file.step);
    const absl::StatusOr<std::string> header = HeaderDigest(file.path);
    if (!header.ok()) {
      checked.problems.emplace_back(header.status().message());
      return;
    }
    if (*header != recorded.header) {
      checked.problems.push_back(absl::StrCat(file.path,
                                              ": the header, which has the checksums of the tensors, is not ",
                                              "the one of line ", recorded.line, " of ", kChainFile));
      return;
    }
  }
  CheckTensors(file.path, checked.problems);
}

// "5 of 21 checkpoints, 1 without a record".
std::string Summary(int64_t there, int64_t unrecorded, int64_t recorded) {
  if (recorded == 0) return absl::StrCat(Counted(there, "checkpoint"), there == 0 ? "" : ", none recorded");
  return absl::StrCat(there - unrecorded, " of ", Counted(recorded, "checkpoint"),
                      unrecorded == 0 ? "" : absl::StrCat(", ", unrecorded, " without a record"));
}

// The link `name` must lead to the checkpoint of that name; a copy of it will do.
void CheckLink(const std::string& folder, const char* name, const std::string& expected, absl::string_view why,
               CheckedRun& checked) {
  std::error_code error;
  const fs::path link = fs::path(folder) / name, target = fs::read_symlink(link, error).filename();
  const absl::StatusOr<std::string> copy = HeaderDigest(link.string());
  if (!error ? target == expected : copy.ok() && copy == HeaderDigest((fs::path(folder) / expected).string())) return;
  checked.problems.push_back(absl::StrCat(link.string(), error ? ": does not lead to a checkpoint" : ": leads to ",
                                          target.string(), ", but ", expected, why));
}

// The links to a checkpoint that has no record yet may not have been made either.
void CheckLinks(const std::string& folder, const RunRecord& run, CheckedRun& checked) {
  if (run.last_checkpoint < 0 || run.last_checkpoint != run.last_save) return;
  const RecordedCheckpoint& last = run.checkpoints.at(run.last_checkpoint);
  CheckLink(folder, "latest", last.file, absl::StrCat(" is the last one (line ", last.line, " of ", kChainFile, ")"),
            checked);
  const absl::StatusOr<std::string> best = io::FindBest(folder);
  if (best.ok() && !best->empty())
    CheckLink(folder, "best", fs::path(*best).filename(), " has the best metric", checked);
}

// Returns a summary of them.
std::string CheckCheckpoints(const RunRecord& run, CheckedRun& checked) {
  const absl::StatusOr<std::vector<io::CheckpointFile>> files = io::ListCheckpoints(CheckpointFolder(run.directory));
  const size_t problems = checked.problems.size();
  if (!files.ok() && !absl::IsNotFound(files.status())) checked.problems.emplace_back(files.status().message());
  const std::vector<io::CheckpointFile> there = files.ok() ? *files : std::vector<io::CheckpointFile>();
  for (const io::CheckpointFile& file : there) CheckCheckpoint(file, run, checked);
  const auto unrecorded =
      std::count_if(there.begin(), there.end(), [&](const auto& file) { return !IsRecorded(file, run); });
  const std::string summary = Summary(static_cast<int64_t>(there.size()), static_cast<int64_t>(unrecorded),
                                      static_cast<int64_t>(run.checkpoints.size()));
  if (run.checkpoints.empty()) return summary;
  const auto& [step, last] = *run.checkpoints.rbegin();
  const bool found = std::any_of(there.begin(), there.end(), [at = step](const auto& file) { return file.step == at; });
  if (!found) {
    checked.problems.push_back(absl::StrCat((fs::path(CheckpointFolder(run.directory)) / last.file).string(),
                                            ": the last checkpoint that the chain records (line ", last.line,
                                            ") is not there"));
  }
  if (checked.problems.size() == problems) CheckLinks(CheckpointFolder(run.directory), run, checked);
  return summary;
}

// One log: the parts that were recorded one after the other.
void CheckLog(const std::string& path, const std::vector<RecordedBytes>& parts, const RunRecord& run,
              CheckedRun& checked) {
  const absl::StatusOr<std::string> text = io::ReadFile(path, kAnySize);
  if (!text.ok()) {
    checked.problems.emplace_back(text.status().message());
    return;
  }
  const std::vector<std::string> changed = ChangedParts(path, *text, parts);
  checked.problems.insert(checked.problems.end(), changed.begin(), changed.end());
  const uint64_t end = parts.empty() ? 0 : parts.back().end;
  if (text->size() <= end) return;
  const std::string more = absl::StrCat(path, ": the chain has no record of the last ", text->size() - end, " bytes");
  (run.ended ? checked.problems : checked.notes).push_back(more);
}

void CheckData(const std::string& path, const std::vector<RecordedBytes>& starts, CheckedRun& checked) {
  for (size_t i = 1; i < starts.size(); ++i) {
    if (starts[i].digest == starts[i - 1].digest) continue;
    checked.problems.push_back(absl::StrCat(path, ": other contents when the run went on at step ", starts[i].step,
                                            " than before (line ", starts[i].line, " of ", kChainFile, ")"));
  }
  const RecordedBytes& last = starts.back();
  const absl::StatusOr<io::InputFile> file = io::InputFile::Open(path);
  const bool other_size = file.ok() && file->size() != last.end;
  const absl::StatusOr<std::string> digest = !file.ok()   ? file.status()
                                             : other_size ? std::string()
                                                          : io::FileDigest(*file);
  if (!digest.ok()) {
    checked.problems.emplace_back(digest.status().message());
  } else if (*digest != last.digest) {
    checked.problems.push_back(
        absl::StrCat(path, ": not the data that the run was given (line ", last.line, " of ", kChainFile, ")"));
  }
}

void CheckBatches(const RunRecord& run, CheckedRun& checked) {
  if (!run.damage.empty() || run.starts.empty()) return;
  int64_t first = run.starts.front().step;
  const auto note_until = [&](int64_t step) {
    if (step <= first) return;
    checked.notes.push_back(absl::StrCat("the chain has no digests of the batches of steps ", first, " to ", step - 1));
  };
  for (const auto& [step, digest] : run.batches) {
    note_until(step);
    first = step + 1;
  }
  if (!run.saves.empty()) note_until(*run.saves.rbegin());
}

}  // namespace

CheckedRun CheckRun(const RunRecord& run) {
  CheckedRun checked;
  checked.problems = run.damage;
  checked.problems.insert(checked.problems.end(), run.found.begin(), run.found.end());
  checked.notes = run.notes;
  if (run.starts.empty()) checked.problems.push_back(absl::StrCat(kChainFile, ": it has no record of a start"));
  if (!run.ended) checked.notes.push_back("the run goes on, or was killed: the chain has no record of its end");
  CheckBatches(run, checked);
  const std::string checkpoints = CheckCheckpoints(run, checked);
  for (const auto& [name, parts] : run.logs) {
    CheckLog((fs::path(run.directory) / name).string(), parts, run, checked);
  }
  for (const std::string& name : LogNames(run.directory)) {
    if (!run.logs.contains(name)) checked.notes.push_back(absl::StrCat(name, ": the chain has no record of it"));
  }
  for (const auto& [path, starts] : run.data) CheckData(path, starts, checked);
  checked.summary =
      absl::StrCat(Counted(static_cast<int64_t>(run.records), "record"), " of ", Counted(run.steps, "step"), "; ",
                   checkpoints, ", ", Counted(static_cast<int64_t>(run.logs.size()), "log"), ", ",
                   Counted(static_cast<int64_t>(run.data.size()), "file"), " of data");
  return checked;
}

}  // namespace belfry::trainers
