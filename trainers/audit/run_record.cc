#include "trainers/audit/run_record.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "trainers/ledger/json_impl.h"
#include "trainers/ledger/run_ledger.h"

namespace belfry::trainers {
namespace {

constexpr size_t kDigestDigits = 16;             // of a batch
constexpr int64_t kMaxSteps = int64_t{1} << 53;  // of a run

std::vector<std::string> StringsIn(const Json& object, const char* name) {
  std::vector<std::string> strings;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return strings;
  for (const Json& element : *found) strings.push_back(BytesOf(element));
  return strings;
}

RecordedStart StartIn(const Json& record, int64_t step) {
  RecordedStart start{.step = step,
                      .program = StringIn(record, "program"),
                      .folder = StringIn(record, "folder"),
                      .version = StringIn(record, "version"),
                      .arguments = StringsIn(record, "arguments"),
                      .devices = StringsIn(record, "devices"),
                      .tasks = NumberIn(record, "tasks", 1),
                      .towers = NumberIn(record, "towers", 1)};
  const auto settings = record.find("settings");
  if (settings == record.end() || !settings->is_object()) return start;
  for (const auto& [name, value] : settings->items()) {
    if (value.is_string()) start.settings[io::UnescapeBytes(name)] = BytesOf(value);
  }
  return start;
}

void AddBatches(const Json& record, RunRecord& run) {
  const int64_t first = NumberIn(record, "first");
  if (first < 0 || first > kMaxSteps) return;
  const std::string digests = StringIn(record, "digests");
  for (size_t i = 0; i + kDigestDigits <= digests.size(); i += kDigestDigits) {
    run.batches[first + static_cast<int64_t>(i / kDigestDigits)] = digests.substr(i, kDigestDigits);
  }
}

void AddRecord(const Json& record, size_t line, RunRecord& run) {
  const std::string kind = StringIn(record, "record"), file = StringIn(record, "file");
  const int64_t step = NumberIn(record, "step");
  if (step < 0 || step > kMaxSteps) return;
  RecordedBytes bytes{.digest = StringIn(record, "digest"), .step = step, .line = line};
  run.ended = kind == "end";
  run.steps = std::max(run.steps, step);
  if (kind == "start") run.starts.push_back(StartIn(record, step));
  if (kind == "batches") AddBatches(record, run);
  if (kind == "save") run.saves.insert(run.last_save = step);
  if (kind == "damage") run.found.push_back(StringIn(record, "text"));
  if (kind == "checkpoint") {
    run.last_checkpoint = step;
    run.checkpoints[step] = {
        .file = file, .header = StringIn(record, "header"), .weights = StringIn(record, "weights"), .line = line};
  }
  if (kind == "plan") run.plans[StringIn(record, "name")].push_back(bytes.digest);
  if (kind == "log") {
    bytes.begin = static_cast<uint64_t>(NumberIn(record, "begin", 0));
    bytes.end = static_cast<uint64_t>(NumberIn(record, "end", 0));
    AddPart(std::move(bytes), run.logs[file]);
  } else if (kind == "data") {
    bytes.end = static_cast<uint64_t>(NumberIn(record, "bytes", 0));
    run.data[file].push_back(std::move(bytes));
  } else if (kind == "large_data") {
    run.notes.push_back(absl::StrCat("the data, ", NumberIn(record, "files"), " files of ", NumberIn(record, "bytes"),
                                     " bytes in all, are too many to have digests of their own; those of batches say "
                                     "what the run was fed"));
  }
}

}  // namespace

const RecordedStart* RunRecord::StartOf(int64_t step) const {
  const RecordedStart* last = nullptr;
  for (const RecordedStart& start : starts) {
    if (start.step <= step) last = &start;
  }
  return last;
}

RunRecord ParseRun(const std::string& directory, absl::Span<const ChainLine> lines) {
  RunRecord run{.directory = directory, .records = lines.size()};
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json record = ParseObject(lines[i].text);
    if (lines[i].intact && !record.empty()) {
      AddRecord(record, i + 1, run);
      continue;
    }
    const std::string kind = StringIn(record, "record");
    const std::string what = kind.empty() ? "" : absl::StrCat(" (", kind, ", step ", NumberIn(record, "step"), ")");
    run.damage.push_back(absl::StrCat(kChainFile, ", line ", i + 1, what,
                                      ": the record does not match its hash, which covers all before it, too"));
  }
  return run;
}

absl::StatusOr<RunRecord> ReadRun(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / kChainFile).string();
  const absl::StatusOr<std::vector<ChainLine>> lines = ReadChain(path);
  if (absl::IsNotFound(lines.status())) {
    return absl::NotFoundError(
        absl::StrCat(path, ": no such file; a Trainer with --train_dir writes it (docs/audit.md)"));
  }
  RETURN_IF_ERROR(lines.status());
  return ParseRun(directory, *lines);
}

}  // namespace belfry::trainers
