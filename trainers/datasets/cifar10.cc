#include "trainers/datasets/cifar10.h"

#include <spdlog/spdlog.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/check.h"
#include "framework/base/status.h"
#include "framework/io/file.h"
#include "trainers/datasets/cifar10_files.h"

namespace belfry::data {
namespace {

namespace fs = std::filesystem;

constexpr int kFilesOfCifar10 = 5;

constexpr int64_t kPixels = kCifar10Edge * kCifar10Edge;

// Turns the planes of one record's image into [H, W, C].
void InterleaveChannels(char* image) {
  std::array<char, kCifar10Channels * kPixels> planes;
  std::memcpy(planes.data(), image, planes.size());
  for (int64_t i = 0; i < kPixels; ++i) {
    for (int64_t c = 0; c < kCifar10Channels; ++c) image[i * kCifar10Channels + c] = planes[c * kPixels + i];
  }
}

class Cifar10Dataset : public Dataset {
 public:
  Cifar10Dataset(std::vector<std::string> files, std::vector<std::string> class_names) : files_(std::move(files)) {
    fields_ = {{"image", DType::kUInt8, {kCifar10Edge, kCifar10Edge, kCifar10Channels}},
               {"label", DType::kInt32, {}, kCifar10Classes, std::move(class_names)}};
    for (std::string& file : files_) {
      ends_.push_back(size() + static_cast<int64_t>(file.size()) / kCifar10RecordBytes);
      for (size_t at = 0; at < file.size(); at += kCifar10RecordBytes) InterleaveChannels(&file[at + 1]);
    }
  }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  absl::Span<const Field> fields() const override { return fields_; }

  absl::Status Read(int64_t index, const Example& example) const override {
    BELFRY_CHECK(0 <= index && index < size());
    size_t file = 0;
    while (index >= ends_[file]) ++file;
    const int64_t record = file == 0 ? index : index - ends_[file - 1];
    const char* bytes = files_[file].data() + record * kCifar10RecordBytes;
    std::memcpy(example.raw(0), bytes + 1, kCifar10RecordBytes - 1);
    *example.field<int32_t>(1) = static_cast<unsigned char>(bytes[0]);
    return absl::OkStatus();
  }

 private:
  std::vector<std::string> files_;  // the contents of the files, with images as [H, W, C]
  std::vector<int64_t> ends_;       // for each file, the index after its last example
  std::vector<Field> fields_;
};

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The contents of one file, after checking every record.
absl::StatusOr<std::string> ReadRecords(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, io::ReadFile(path, io::kMaxDataBytes));
  const auto size = static_cast<int64_t>(bytes.size());
  const std::string layout = absl::StrCat("records of ", kCifar10RecordBytes, " bytes (1 label, 3072 pixels)");
  if (size == 0) return absl::DataLossError(absl::StrCat(path, ": the file is empty; expected ", layout));
  const int64_t records = size / kCifar10RecordBytes, rest = size % kCifar10RecordBytes;
  for (int64_t i = 0; i < records; ++i) {
    const int label = static_cast<unsigned char>(bytes[i * kCifar10RecordBytes]);
    if (label < kCifar10Classes) continue;
    return absl::DataLossError(absl::StrCat(path, ": record ", i, " (at byte ", i * kCifar10RecordBytes, ") has label ",
                                            label, "; expected 0 to ", kCifar10Classes - 1,
                                            ": the file is damaged or has another layout"));
  }
  if (rest != 0) {
    return absl::DataLossError(absl::StrCat(path, ": record ", records, " ends after ", rest, " bytes (the file has ",
                                            size, " bytes); expected ", layout,
                                            ": the file is cut short or has another layout"));
  }
  return bytes;
}

absl::StatusOr<fs::path> FindDirectory(const std::string& directory) {
  const fs::path path(directory), child = path / "cifar-10-batches-bin";
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat(directory, ": ", Exists(path) ? "not a directory" : "no such directory"));
  }
  const std::string first = TrainingFileName(1);
  if (Exists(path / first)) return path;
  if (Exists(child / first)) return child;
  return absl::NotFoundError(
      absl::StrCat(directory, ": holds ", fs::is_empty(path, error) ? "nothing" : absl::StrCat("no ", first),
                   "; expected the files of the CIFAR-10 binary version (", first, " ... ", kTestFile,
                   "), here or in the folder cifar-10-batches-bin: unpack cifar-10-binary.tar.gz from "
                   "https://www.cs.toronto.edu/~kriz/cifar.html"));
}

absl::StatusOr<std::vector<std::string>> ReadClassNames(const fs::path& path) {
  std::vector<std::string> names;
  if (!Exists(path)) return names;
  ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path.string(), io::kMaxNoteBytes));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) names.emplace_back(line);
  }
  if (names.size() != static_cast<size_t>(kCifar10Classes)) {
    return absl::DataLossError(absl::StrCat(path.string(), ": holds ", names.size(), " class names; expected ",
                                            kCifar10Classes, ", one per line"));
  }
  return names;
}

// Reads data_batch_1.bin and so on. A file whose number comes after a gap means that one was lost.
absl::StatusOr<std::vector<std::string>> ReadTrainingFiles(const fs::path& folder) {
  const auto file = [&](int number) { return folder / TrainingFileName(number); };
  std::vector<std::string> files;
  int number = 1;
  for (; Exists(file(number)); ++number) {
    ASSIGN_OR_RETURN(std::string bytes, ReadRecords(file(number).string()));
    files.push_back(std::move(bytes));
  }
  for (int later = number + 1; later <= number + 5; ++later) {
    if (!Exists(file(later))) continue;
    return absl::NotFoundError(
        absl::StrCat(file(number).string(), ": no such file, though ", file(later).filename().string(), " exists"));
  }
  return files;
}

int64_t Records(const std::string& bytes) { return static_cast<int64_t>(bytes.size()) / kCifar10RecordBytes; }

// In the real set, and in a subset of it, all training files hold the same number of records; a different number means
// that a copy was cut short.
absl::Status CheckCounts(const fs::path& folder, const std::vector<std::string>& train, const std::string& test) {
  const auto wrong = [&](const std::string& name, int64_t records, absl::string_view than, int64_t expected) {
    return absl::DataLossError(absl::StrCat((folder / name).string(), ": holds ", records, " records, but ", than,
                                            " holds ", expected,
                                            ": the file is cut short or belongs to another data set"));
  };
  for (size_t i = 1; i < train.size(); ++i) {
    if (train[i].size() == train[0].size()) continue;
    const std::string first = TrainingFileName(1), other = TrainingFileName(static_cast<int64_t>(i) + 1);
    const int64_t of_first = Records(train[0]), of_other = Records(train[i]);
    return of_other < of_first ? wrong(other, of_other, first, of_first) : wrong(first, of_first, other, of_other);
  }
  const bool real = train.size() == kFilesOfCifar10 && Records(train[0]) == kImagesPerFile;
  if (real && Records(test) != kImagesPerFile) {
    return wrong(kTestFile, Records(test), "that of CIFAR-10", kImagesPerFile);
  }
  return absl::OkStatus();
}

void WarnOfMissingFiles(const fs::path& folder, size_t files) {
  if (files >= kFilesOfCifar10) return;
  std::vector<std::string> missing;
  for (size_t i = files + 1; i <= kFilesOfCifar10; ++i) {
    missing.push_back(TrainingFileName(static_cast<int64_t>(i)));
  }
  spdlog::warn("{}: no {}; training on {} of the {} files of CIFAR-10", folder.string(), absl::StrJoin(missing, ", "),
               files, kFilesOfCifar10);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenCifar10File(const std::string& path) {
  ASSIGN_OR_RETURN(std::string bytes, ReadRecords(path));
  std::vector<std::string> files;
  files.push_back(std::move(bytes));
  return std::make_unique<Cifar10Dataset>(std::move(files), std::vector<std::string>());
}

absl::StatusOr<Cifar10> OpenCifar10(const std::string& directory) {
  ASSIGN_OR_RETURN(const fs::path folder, FindDirectory(directory));
  const fs::path test_path = folder / kTestFile;
  if (!Exists(test_path)) {
    return absl::NotFoundError(absl::StrCat(test_path.string(), ": no such file; it holds the test images"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadClassNames(folder / kNamesFile));
  ASSIGN_OR_RETURN(std::vector<std::string> train, ReadTrainingFiles(folder));
  ASSIGN_OR_RETURN(std::string test_bytes, ReadRecords(test_path.string()));
  // A generated set has any number of files, and its last one holds whatever remains.
  if (!Exists(folder / kTexturesMarker)) {
    RETURN_IF_ERROR(CheckCounts(folder, train, test_bytes));
    WarnOfMissingFiles(folder, train.size());
  }
  std::vector<std::string> test;
  test.push_back(std::move(test_bytes));
  return Cifar10{std::make_unique<Cifar10Dataset>(std::move(train), names),
                 std::make_unique<Cifar10Dataset>(std::move(test), names)};
}

}  // namespace belfry::data
