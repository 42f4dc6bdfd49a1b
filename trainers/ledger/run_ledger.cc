#include "trainers/ledger/run_ledger.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/base/version.h"
#include "framework/io/checksum.h"
#include "framework/io/file.h"
#include "trainers/ledger/resumed_chain.h"
#include "trainers/ledger/weights_digest.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;
// Limits of what is read at the start of a run: data sets beyond them have no digests.
constexpr size_t kMaxDataFiles = 10'000;
constexpr uint64_t kMaxDataSetBytes = uint64_t{1} << 32;
// More than a batch has examples, so that no two rows have the same seed.
constexpr uint64_t kSeedsOfField = uint64_t{1} << 40;
constexpr char kTraceFile[] = "trace.json";

// Adds the regular files of `path`, which is a file or a folder.
void AddFiles(const fs::path& path, std::vector<std::string>& files) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) files.push_back(path.string());
  if (!fs::is_directory(path, error) || files.size() > kMaxDataFiles) return;
  const absl::StatusOr<std::vector<std::string>> names = io::ListFolder(path.string());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!fs::is_symlink(path / name, error) || fs::is_regular_file(path / name, error)) AddFiles(path / name, files);
  }
}

std::vector<std::string> FilesOf(absl::Span<const std::string> paths) {
  std::vector<std::string> files;
  std::error_code error;
  for (const std::string& path : paths) {
    if (!path.empty()) AddFiles(fs::absolute(path, error).lexically_normal(), files);
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> Arguments() {
  const absl::StatusOr<std::string> line = io::ReadFile("/proc/self/cmdline");
  if (!line.ok()) return {};
  std::vector<std::string> arguments = absl::StrSplit(*line, '\0');
  if (!arguments.empty()) arguments.pop_back();  // it is what follows the last zero
  return arguments;
}

// The attributes of a node, and of those that it was made of.
void AppendAttributes(const ProgramNode& node, std::string& text) {
  absl::StrAppend(&text, node.name, " ", node.op->name, " ", AttrsKey(node.attrs), "\n");
  for (const ProgramNode& member : node.body) AppendAttributes(member, text);
}

// The digest of the plan's text and of the nodes' attributes, which the text leaves out.
std::string PlanDigest(const Plan& plan, const DeviceSet& devices) {
  std::string text = plan.ToText(devices);
  for (const ProgramNode& node : plan.program.nodes) AppendAttributes(node, text);
  return io::DigestText(text);
}

}  // namespace

bool IsLogName(absl::string_view name) {
  return name == "metrics.jsonl" || name == kTraceFile || absl::StartsWith(name, "events.out.tfevents");
}

std::vector<std::string> LogNames(const std::string& directory) {
  std::vector<std::string> logs;
  const absl::StatusOr<std::vector<std::string>> names = io::ListFolder(directory);
  if (!names.ok()) return logs;
  for (const std::string& name : *names) {
    if (IsLogName(name)) logs.push_back(name);
  }
  std::sort(logs.begin(), logs.end());
  return logs;
}

// The chain is cut back, and damage recorded, before the log is.
absl::Status RunLedger::Begin(TrainingState& state) {
  ASSIGN_OR_RETURN(const std::string chain,
                   state.world.Broadcast(options_.directory.empty() ? "" : "chain", SteadyNow() + options_.timeout));
  begun_ = true;
  active_ = !chain.empty();
  steps_ = state.steps;
  batches_.clear();
  batches_.reserve(kBatches);
  if (state.world.rank() != 0 || !active_) return absl::OkStatus();
  RETURN_IF_ERROR(Open(state));
  return AddStart(state);
}

absl::Status RunLedger::OnStart(TrainingState& state) {
  if (!begun_) RETURN_IF_ERROR(Begin(state));
  begun_ = false;
  if (!writes()) return absl::OkStatus();
  RETURN_IF_ERROR(AddLogs(/*whole=*/false));
  return AddData(FilesOf(options_.data_paths));
}

// A run goes on at the last record that was written before its checkpoint was or, without one, in the process that has
// trained so far, at the end of the run before.
absl::Status RunLedger::Open(const TrainingState& state) {
  const std::string path = (fs::path(options_.directory) / kChainFile).string();
  ResumedChain chain;
  if (state.steps > 0) {
    const bool resumes = state.resume != nullptr;
    ASSIGN_OR_RETURN(chain, ResumeChain(options_.directory, resumes ? "save" : "end", state.steps,
                                        resumes ? state.resume->path : ""));
    if (chain.size == 0) spdlog::warn("{}: has no record of step {}, so it begins anew there", path, state.steps);
  }
  covered_ = std::move(chain.covered);
  ASSIGN_OR_RETURN(writer_, ChainWriter::Open(path, chain.size, chain.hash));
  for (const std::string& record : chain.damage) RETURN_IF_ERROR(writer_->Append(record));
  return state.resume != nullptr ? AddCheckpoint(state.resume->path) : absl::OkStatus();
}

absl::Status RunLedger::Append(absl::string_view kind, int64_t step, const ObjectText& more) {
  const std::string begin = ObjectText().Add("record", kind).Add("step", step).text();
  const std::string end = more.text();
  if (end == "{}") return writer_->Append(begin);
  return writer_->Append(absl::StrCat(begin.substr(0, begin.size() - 1), ",", absl::string_view(end).substr(1)));
}

absl::Status RunLedger::AddStart(const TrainingState& state) {
  std::error_code error;
  std::vector<std::string> devices;
  for (const int tower : state.session.devices().TowerDevices()) {
    const Device& device = state.session.devices().device(tower);
    devices.push_back(absl::StrCat(device.name().ToLocalString(), ": ", device.description()));
  }
  return Append("start", state.steps,
                ObjectText()
                    .Add("total", state.total)
                    .Add("program", fs::read_symlink("/proc/self/exe", error).string())
                    .Add("arguments", Arguments())
                    .Add("folder", fs::current_path(error).string())
                    .Add("version", kBuild)
                    .Add("tasks", int64_t{state.world.size()})
                    .Add("towers", int64_t{state.train_step.towers_in_all})
                    .Add("devices", devices)
                    .Add("settings", options_.settings));
}

absl::Status RunLedger::AddData(absl::Span<const std::string> paths) {
  std::error_code error;
  uint64_t bytes = 0;
  for (const std::string& path : paths) bytes += fs::file_size(path, error);
  if (paths.size() > kMaxDataFiles || bytes > kMaxDataSetBytes) {
    return Append(
        "large_data", steps_,
        ObjectText().Add("files", static_cast<int64_t>(paths.size())).Add("bytes", static_cast<int64_t>(bytes)));
  }
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const io::InputFile file, io::InputFile::Open(path));
    ASSIGN_OR_RETURN(const std::string digest, io::FileDigest(file));
    RETURN_IF_ERROR(
        Append("data", steps_,
               ObjectText().Add("file", path).Add("bytes", static_cast<int64_t>(file.size())).Add("digest", digest)));
  }
  return absl::OkStatus();
}

absl::Status RunLedger::OnPrepared(TrainingState& state, absl::string_view name, const Plan& plan) {
  if (!writes()) return absl::OkStatus();
  const std::string digest = PlanDigest(plan, state.session.devices());
  return Append("plan", steps_, ObjectText().Add("name", name).Add("digest", digest));
}

// Adds the sum, modulo 2^64, of a checksum of each field of each example in the towers of this process: of its bytes,
// of the field's number and of the example's index in the whole batch. So the sum over all processes does not depend on
// how examples are dealt to towers and towers to processes. It takes about as long as reading the batch from memory.
void RunLedger::OnBatch(const data::Batch& batch) {
  if (!active_) return;
  uint64_t& sum = batches_.emplace_back(0);
  for (const data::TowerBatch& tower : batch.towers()) {
    if (tower.count == 0) continue;
    const auto rows = static_cast<size_t>(tower.count);
    for (size_t i = 0; i < tower.fields.size(); ++i) {
      const Tensor& field = tower.fields[i];
      sum += io::SumOfChecksums(field.raw(), rows, field.bytes() / rows,
                                i * kSeedsOfField + static_cast<uint64_t>(tower.offset));
    }
  }
}

absl::Status RunLedger::Flush(World& world) {
  if (!active_ || batches_.empty()) return absl::OkStatus();
  if (world.size() > 1) {
    const absl::string_view mine(reinterpret_cast<const char*>(batches_.data()), batches_.size() * sizeof(uint64_t));
    ASSIGN_OR_RETURN(const std::vector<std::string> all, world.AllGather(mine, SteadyNow() + options_.timeout));
    for (int task = 0; task < world.size(); ++task) {
      if (all[task].size() != mine.size()) return absl::InternalError("the tasks have done different numbers of steps");
      for (size_t i = 0; i < batches_.size() && task != world.rank(); ++i) {
        uint64_t part;
        std::memcpy(&part, all[task].data() + i * sizeof(part), sizeof(part));
        batches_[i] += part;
      }
    }
  }
  std::string digests;
  for (const uint64_t digest : batches_) absl::StrAppend(&digests, absl::Hex(digest, absl::kZeroPad16));
  const int64_t first = steps_;
  steps_ += static_cast<int64_t>(batches_.size());
  batches_.clear();
  if (!writes()) return absl::OkStatus();
  return Append("batches", steps_, ObjectText().Add("first", first).Add("digests", digests));
}

absl::Status RunLedger::BeforeSave(TrainingState& state, bool alone) {
  if (!active_) return absl::OkStatus();
  absl::Status status;
  if (!alone || state.world.size() == 1) status = Flush(state.world);
  // The checkpoint is written all the same, but the others' parts of these batches cannot be had.
  batches_.clear();
  steps_ = state.steps;
  if (!writes()) return status;
  status.Update(AddLogs(/*whole=*/false));
  status.Update(Append("save", steps_));
  return status;
}

// The header has the checksums of all tensors, so its digest stands for the whole file.
absl::Status RunLedger::AddCheckpoint(const std::string& path) {
  if (!writes()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const io::SafetensorsFile file, io::SafetensorsFile::Open(path));
  ASSIGN_OR_RETURN(const std::string header, HeaderDigest(path));
  int64_t step = -1;
  const auto found = file.metadata().find("belfry.step");
  if (found == file.metadata().end() || !absl::SimpleAtoi(found->second, &step)) {
    return absl::InternalError(absl::StrCat(path, ": a checkpoint without its step"));
  }
  return Append("checkpoint", step,
                ObjectText()
                    .Add("file", fs::path(path).filename().string())
                    .Add("header", header)
                    .Add("weights", WeightsDigest(LinesOf(file.tensors()))));
}

// A log that has become shorter was cut back by the run that goes on: what is left of the last records is read again.
absl::Status RunLedger::AddLogs(bool whole) {
  for (const std::string& name : LogNames(options_.directory)) {
    if (name == kTraceFile && !whole) continue;  // it is written anew
    ASSIGN_OR_RETURN(const io::InputFile file, io::InputFile::Open((fs::path(options_.directory) / name).string()));
    uint64_t& covered = covered_[name];
    const uint64_t begin = name == kTraceFile || file.size() < covered ? 0 : covered;
    if (file.size() == begin) continue;
    std::string bytes(file.size() - begin, '\0');
    RETURN_IF_ERROR(file.Read(begin, bytes.data(), bytes.size()));
    covered = file.size();
    RETURN_IF_ERROR(Append("log", steps_,
                           ObjectText()
                               .Add("file", name)
                               .Add("begin", static_cast<int64_t>(begin))
                               .Add("end", static_cast<int64_t>(covered))
                               .Add("digest", io::DigestText(bytes))));
  }
  return absl::OkStatus();
}

absl::Status RunLedger::OnEnd(TrainingState& state) {
  if (!writes() || !state.status.ok()) return absl::OkStatus();
  RETURN_IF_ERROR(AddLogs(/*whole=*/true));
  return Append("end", state.steps, ObjectText().Add("signal", int64_t{state.stopped}));
}

}  // namespace belfry::trainers
