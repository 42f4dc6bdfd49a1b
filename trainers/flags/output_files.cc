// The rule that no output of a program replaces what the program reads or a run owns. Files are compared, not their
// names: one may have several, by links.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "trainers/flags/flags.h"
#include "trainers/ledger/run_ledger.h"
#include "trainers/loop/run_directory.h"

namespace belfry::trainers {
namespace {

namespace fs = std::filesystem;

// A file or folder that a flag or an argument names.
struct Named {
  std::string path, called;  // "--data_dir=DIR"
  FileUse use = FileUse::kReads;
};

fs::path Whole(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path.lexically_normal() : whole;
}

bool Same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return Whole(a) == Whole(b) || fs::equivalent(a, b, error);
}

// True if `output`, which exists, is a file below `folder`, outside of `except`. Links to folders are followed as where
// data are read.
bool IsBelow(const fs::path& folder, const fs::path& output, const fs::path& except = {}, int depth = 16) {
  const absl::StatusOr<std::vector<std::string>> names = io::ListFolder(folder.string());
  if (!names.ok() || depth == 0) return false;
  for (const std::string& name : *names) {
    const fs::path path = folder / name;
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (fs::equivalent(path, output, error)) return true;
    } else if ((except.empty() || !Same(path, except)) && IsBelow(path, output, except, depth - 1)) {
      return true;
    }
  }
  return false;
}

// True if a run in `directory` has or will have a file of its own there.
bool IsOfRun(const fs::path& directory, const std::string& output) {
  const fs::path whole = Whole(output), checkpoints = CheckpointFolder(directory.string());
  const std::string name = whole.filename().string();
  if (Same(whole.parent_path(), checkpoints)) return true;
  if (Same(whole.parent_path(), directory) && (name == kChainFile || IsLogName(name))) return true;
  std::error_code error;
  if (!fs::exists(whole, error)) return false;
  if (IsBelow(checkpoints, output)) return true;
  std::vector<std::string> files = LogNames(directory.string());
  files.emplace_back(kChainFile);
  for (const std::string& file : files) {
    if (fs::equivalent(directory / file, output, error)) return true;
  }
  return false;
}

// True if `output` is beside `input` and is read with it: an index of weights and an ONNX file name others, and
// vocab.json has its merges.txt.
bool ComesWith(const std::string& input, const std::string& output) {
  constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 26;
  const fs::path whole = Whole(output);
  const std::string name = whole.filename().string();
  if (Whole(input).parent_path() != whole.parent_path()) return false;
  if (absl::EndsWith(input, ".json") && name == "merges.txt") return true;
  const bool index = absl::EndsWith(input, ".json") && absl::EndsWith(name, ".safetensors");
  if (!index && !absl::EndsWith(input, ".onnx")) return false;
  const absl::StatusOr<std::string> text = io::ReadFile(input, kMaxIndexBytes);
  // In an ONNX file, the entry "location" of external data, as protobuf writes it.
  const std::string file =
      index ? absl::StrCat("\"", name, "\"")
            : absl::StrCat("\x0a\x08location\x12", std::string(1, static_cast<char>(name.size())), name);
  return text.ok() && absl::StrContains(*text, file);
}

// True if the file is a saved model or a metrics file, which are no data: the output of this command at an earlier
// time. Checkpoints are not, by their names.
bool IsOlderOutput(const fs::path& file, FileUse use) {
  constexpr size_t kLengthBytes = 8;  // of the header of safetensors, before it
  const absl::StatusOr<io::InputFile> opened = io::InputFile::Open(file.string());
  if (!opened.ok()) return false;
  std::string start(std::min<uint64_t>(opened->size(), kLengthBytes + 1), '\0');
  if (!opened->Read(0, start.data(), start.size()).ok()) return false;
  if (use == FileUse::kAppends) return start.empty() || absl::StartsWith(start, "{\"step\"");
  return start.size() > kLengthBytes && start[kLengthBytes] == '{' &&
         !absl::StartsWith(file.filename().string(), "step-");
}

// True if `output`, which exists, is one of the files that are read where `folder` is named: weights of a run, which
// are those of its checkpoints, or data.
bool IsReadOf(const fs::path& folder, const Named& output, const std::string& run) {
  if (IsBelow(CheckpointFolder(folder.string()), output.path, run)) return true;
  return !IsOlderOutput(output.path, output.use) && IsBelow(folder, output.path, run);
}

// The reason why the program must not write `output`, with what the other is called; "" if it may. `run`: its
// --train_dir, whose files are not data, wherever it lies.
std::string Conflict(const Named& output, const Named& other, const std::string& run) {
  std::error_code error;
  const bool exists = fs::exists(output.path, error);
  if (other.use == FileUse::kWrites) {
    return Same(other.path, output.path) ? absl::StrCat(" is also ", other.called) : "";
  }
  if (other.use == FileUse::kRunDirectory && !Same(other.path, output.path)) {
    const bool is_log = output.use == FileUse::kAppends && Same(fs::path(other.path) / "metrics.jsonl", output.path);
    return !is_log && IsOfRun(other.path, output.path) ? absl::StrCat(" belongs to the run in ", other.called) : "";
  }
  const bool read = Same(other.path, output.path) ||
                    (exists && (fs::is_directory(other.path, error) ? IsReadOf(other.path, output, run)
                                                                    : ComesWith(other.path, output.path)));
  return read ? absl::StrCat(" is a file that is read, ", other.called) : "";
}

}  // namespace

absl::Status Flags::CheckOutputs() const {
  std::vector<Named> others, outputs;
  std::string run;
  for (const std::string& path : flag_files_) others.push_back({path, absl::StrCat("--flagfile=", path)});
  for (const std::string& path : arguments_ == nullptr ? std::vector<std::string>() : *arguments_) {
    if (!path.empty()) others.push_back({path, path, argument_use_});
  }
  for (const Row& row : rows_) {
    const FileUse use = row.rule.files;
    if (use == FileUse::kNone || (!row.rule.written_if.empty() && !IsSet(row.rule.written_if))) continue;
    const auto* const several = std::get_if<std::vector<std::string>*>(&row.value);
    const std::vector<std::string> paths =
        several != nullptr ? **several : std::vector<std::string>{*std::get<std::string*>(row.value)};
    for (const std::string& path : paths) {
      if (path.empty()) continue;
      const bool writes = use == FileUse::kWrites || use == FileUse::kAppends;
      (writes ? outputs : others).push_back({path, absl::StrCat("--", row.name, "=", path), use});
      if (use == FileUse::kRunDirectory) run = path;
    }
  }
  for (const Named& output : outputs) {
    std::error_code error;
    // A folder is refused where it is opened, and a device may be written for several flags.
    if (fs::exists(output.path, error) && !fs::is_regular_file(output.path, error)) continue;
    for (const Named& other : others) {
      const std::string conflict = Conflict(output, other, run);
      if (conflict.empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(output.called, conflict, "; name another"));
    }
    others.push_back({output.path, output.called, FileUse::kWrites});
  }
  return absl::OkStatus();
}

}  // namespace belfry::trainers
