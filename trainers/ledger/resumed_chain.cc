#include "trainers/ledger/resumed_chain.h"

#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "trainers/ledger/chain_file.h"
#include "trainers/ledger/object_text.h"
#include "trainers/ledger/recorded_log.h"
#include "trainers/ledger/run_ledger.h"
#include "trainers/ledger/weights_digest.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;

// The records of logs in a chain.
class RecordedLogs {
 public:
  void Add(absl::string_view kind, absl::string_view record, size_t line) {
    if (kind == "log") {
      const std::string name(MemberOf(record, "file"));
      RecordedBytes part{.digest = std::string(MemberOf(record, "digest")), .line = line};
      if (!absl::SimpleAtoi(MemberOf(record, "begin"), &part.begin) ||
          !absl::SimpleAtoi(MemberOf(record, "end"), &part.end) ||
          !absl::SimpleAtoi(MemberOf(record, "step"), &part.step)) {
        return;
      }
      AddPart(std::move(part), logs_[name]);
      settled_.insert(name);
    } else if (kind == "start") {
      starts_ = true;
      settled_.clear();
    } else if (kind != "damage") {
      starts_ = false;
    }
  }

  std::map<std::string, uint64_t> Covered() const {
    std::map<std::string, uint64_t> covered;
    for (const auto& [name, parts] : logs_) covered[name] = parts.back().end;
    return covered;
  }

  // A process that was killed while it started may have cut a log back that has no new record yet.
  std::vector<std::string> Changed(const std::string& directory) const {
    std::vector<std::string> changed;
    for (const auto& [name, parts] : logs_) {
      if (starts_ && !settled_.contains(name)) continue;
      const std::string path = (fs::path(directory) / name).string();
      const absl::StatusOr<std::string> text = io::ReadFile(path, kAnySize);
      if (!text.ok()) changed.emplace_back(text.status().message());
      if (!text.ok()) continue;
      for (std::string& part : ChangedParts(path, *text, parts)) changed.push_back(std::move(part));
    }
    return changed;
  }

 private:
  std::map<std::string, std::vector<RecordedBytes>> logs_;
  bool starts_ = false;            // the last records are those of a start
  std::set<std::string> settled_;  // the logs that have a record since then
};

absl::Status CheckCheckpoint(const std::string& path, const ChainLine& recorded, size_t line) {
  ASSIGN_OR_RETURN(const std::string header, HeaderDigest(path));
  if (header == MemberOf(recorded.text, "header")) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": is not the checkpoint that this run wrote, as line ", line, " of ", kChainFile,
      " records it. Put that one back, remove this one so that the run goes on from an earlier one, or move ",
      kChainFile, " elsewhere to go on from this one with a new record"));
}

}  // namespace

absl::StatusOr<ResumedChain> ResumeChain(const std::string& directory, absl::string_view kind, int64_t step,
                                         const std::string& checkpoint) {
  ResumedChain chain;
  const absl::StatusOr<std::vector<ChainLine>> lines = ReadChain((fs::path(directory) / kChainFile).string());
  if (absl::IsNotFound(lines.status())) return chain;
  RETURN_IF_ERROR(lines.status());
  const std::string step_text = absl::StrCat(step);
  RecordedLogs logs;
  size_t recorded = 0;  // the line, from 1, of the checkpoint
  std::vector<std::string> damage;
  for (size_t i = 0; i < lines->size(); ++i) {
    const ChainLine& line = (*lines)[i];
    if (!line.intact) {
      // A kill leaves a part of a line at most.
      if (line.whole)
        damage.push_back(absl::StrCat(kChainFile, ", line ", i + 1, ": the record did not match its hash"));
      continue;
    }
    const absl::string_view its_kind = MemberOf(line.text, "record");
    logs.Add(its_kind, line.text, i + 1);
    if (its_kind == "damage") chain.damage.push_back(line.text);
    const bool of_step = MemberOf(line.text, "step") == step_text;
    if (of_step && its_kind == "checkpoint") recorded = i + 1;
    if (!of_step || its_kind != kind) continue;
    chain = {.size = line.end, .hash = line.hash, .covered = logs.Covered()};
    damage.clear();
    recorded = 0;
  }
  if (recorded > 0 && !checkpoint.empty()) {
    RETURN_IF_ERROR(CheckCheckpoint(checkpoint, (*lines)[recorded - 1], recorded));
  }
  for (std::string& text : logs.Changed(directory)) damage.push_back(std::move(text));
  for (const std::string& text : damage) {
    chain.damage.push_back(ObjectText()
                               .Add("record", "damage")
                               .Add("step", step)
                               .Add("text", absl::StrCat(text, "; found when the run went on at step ", step))
                               .text());
  }
  return chain;
}

}  // namespace belfry::trainers
