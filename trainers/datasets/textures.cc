#include "trainers/datasets/textures.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/base/parallel.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/io/file.h"
#include "framework/io/file_lock.h"
#include "trainers/datasets/cifar10_files.h"
#include "trainers/datasets/texture_image.h"

namespace belfry::data {

const std::array<absl::string_view, kCifar10Classes> kTextureNames = {
    "striped_disc",       "checkered_disc", "striped_square",  "checkered_square", "striped_triangle",
    "checkered_triangle", "striped_cross",  "checkered_cross", "striped_ring",     "checkered_ring"};

namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;  // version of the images that DrawTextureImage draws
constexpr int kMaxPlaces = 9;
constexpr char kBeside[] = ".tmp.";  // suffix, before the process id, of the directory that is renamed to become the
                                     // set
constexpr char kDescription[] = "textured shapes, version ";
constexpr char kTrainingKey[] = "textures/training", kTestKey[] = "textures/test";

std::string Describe(const TextureOptions& options) {
  return absl::StrCat(kDescription, kVersion, ", seed ", options.seed, ", ", options.training_images, " training and ",
                      options.test_images, " test images\n");
}

// Records [first, first + count) of the part (training or test) that `key` stands for.
std::string Records(uint64_t key, int64_t first, int64_t count) {
  std::string bytes(static_cast<size_t>(count * kCifar10RecordBytes), '\0');
  constexpr double kOperationsPerImage = 1e5;
  ParallelFor(count, kOperationsPerImage, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      char* record = &bytes[i * kCifar10RecordBytes];
      const auto label = static_cast<int>((first + i) % kCifar10Classes);
      record[0] = static_cast<char>(label);
      DrawTextureImage(key, first + i, label, reinterpret_cast<uint8_t*>(record + 1));
    }
  });
  return bytes;
}

// File names, with the number of images in each.
std::vector<std::pair<std::string, int64_t>> ImageFiles(const TextureOptions& options) {
  std::vector<std::pair<std::string, int64_t>> files;
  for (int64_t first = 0; first < options.training_images; first += kImagesPerFile) {
    files.emplace_back(TrainingFileName(static_cast<int64_t>(files.size()) + 1),
                       std::min(kImagesPerFile, options.training_images - first));
  }
  files.emplace_back(kTestFile, options.test_images);
  return files;
}

// True if all files of the set are there. Tools that clean temporary directories may remove single files.
bool IsComplete(const fs::path& folder, const TextureOptions& options) {
  const absl::StatusOr<std::string> found = io::ReadFile((folder / kTexturesMarker).string(), io::kMaxNoteBytes);
  if (!found.ok() || *found != Describe(options)) return false;
  for (const auto& [name, images] : ImageFiles(options)) {
    std::error_code error;
    const uintmax_t size = fs::file_size(folder / name, error);
    if (error || size != static_cast<uintmax_t>(images * kCifar10RecordBytes)) return false;
  }
  return true;
}

// True for the files of a generated set and their temporary files.
bool IsNameOfOurs(absl::string_view name) {
  if (absl::ConsumeSuffix(&name, ".tmp")) {
    while (!name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(name.back()))) name.remove_suffix(1);
    if (!absl::ConsumeSuffix(&name, ".")) return false;
  }
  if (name == kTexturesMarker || name == kTestFile || name == kNamesFile) return true;
  int64_t number;
  return absl::ConsumePrefix(&name, "data_batch_") && absl::ConsumeSuffix(&name, ".bin") &&
         absl::SimpleAtoi(name, &number);
}

// True if the generator was interrupted while writing into `folder`: its first image is ours, and the last files are
// missing.
bool IsUnfinished(const fs::path& folder, const TextureOptions& options) {
  std::error_code error;
  if (fs::exists(folder / kTestFile, error)) return false;
  const absl::StatusOr<std::string> bytes =
      io::ReadFile((folder / TrainingFileName(1)).string(), kImagesPerFile * kCifar10RecordBytes);
  return bytes.ok() && absl::StartsWith(*bytes, Records(RandomKey(options.seed, kTrainingKey), 0, 1));
}

// FailedPrecondition unless `folder` is absent, empty, or a generated set and nothing else.
absl::Status CheckReplaceable(const fs::path& folder, const TextureOptions& options) {
  const auto refuse = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(folder.string(), ": ", why, "; choose another folder"));
  };
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) return absl::OkStatus();
  if (!fs::is_directory(status)) return refuse("not a directory");
  ASSIGN_OR_RETURN(const std::vector<std::string> names, io::ListFolder(folder.string()));
  if (names.empty()) return absl::OkStatus();
  for (const std::string& name : names) {
    if (!IsNameOfOurs(name)) {
      return refuse(absl::StrCat("holds ", name, ", which does not belong to a generated data set"));
    }
  }
  const absl::StatusOr<std::string> marker = io::ReadFile((folder / kTexturesMarker).string(), io::kMaxNoteBytes);
  if (marker.ok() ? absl::StartsWith(*marker, kDescription) : IsUnfinished(folder, options)) return absl::OkStatus();
  return refuse("holds a data set without textures.txt, so it was not generated");
}

// Removes a generated set and nothing else. The marker goes last, since it identifies the folder as ours.
absl::Status Remove(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, io::ListFolder(folder.string()));
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    if (!IsNameOfOurs(name)) return absl::FailedPreconditionError(absl::StrCat(folder.string(), ": holds ", name));
    if (name != kTexturesMarker) files.push_back(folder / name);
  }
  files.push_back(folder / kTexturesMarker);
  files.push_back(folder);
  for (const fs::path& file : files) {
    fs::remove(file, error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat(file.string(), ": cannot replace the data set: ", error.message(), "; choose another folder"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteFiles(const fs::path& folder, const TextureOptions& options) {
  const uint64_t training_key = RandomKey(options.seed, kTrainingKey);
  int64_t first = 0;
  for (const auto& [name, images] : ImageFiles(options)) {
    const bool test = name == kTestFile;
    RETURN_IF_ERROR(io::WriteFile((folder / name).string(), test ? Records(RandomKey(options.seed, kTestKey), 0, images)
                                                                 : Records(training_key, first, images)));
    first += images;
  }
  RETURN_IF_ERROR(
      io::WriteFile((folder / kNamesFile).string(), absl::StrCat(absl::StrJoin(kTextureNames, "\n"), "\n")));
  return io::WriteFile((folder / kTexturesMarker).string(), Describe(options));
}

// Removes what a killed process left beside `folder`. The lock guarantees that no other writer is at work there.
void RemoveStale(const fs::path& folder) {
  const std::string prefix = absl::StrCat(folder.filename().string(), kBeside);
  const absl::StatusOr<std::vector<std::string>> names = io::ListFolder(folder.parent_path().string());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    int64_t process;
    if (absl::StartsWith(name, prefix) && absl::SimpleAtoi(name.substr(prefix.size()), &process)) {
      Remove(folder.parent_path() / name).IgnoreError();
    }
  }
}

absl::Status Unavailable(const fs::path& path, absl::string_view what, const std::error_code& error) {
  return absl::UnavailableError(absl::StrCat(path.string(), ": cannot ", what, ": ", error.message()));
}

}  // namespace

absl::Status WriteTextures(const std::string& directory, const TextureOptions& options) {
  if (options.training_images < 1 || options.test_images < 1) {
    return absl::InvalidArgumentError(absl::StrCat(options.training_images, " training and ", options.test_images,
                                                   " test images; expected at least one of each"));
  }
  std::error_code error;
  fs::path folder = fs::absolute(directory, error);
  if (!error) folder = fs::weakly_canonical(folder, error);  // a link is kept, and its target is written
  if (error) return Unavailable(directory, "open", error);
  if (!folder.has_filename()) folder = folder.parent_path();
  if (IsComplete(folder, options)) return absl::OkStatus();

  fs::create_directories(folder.parent_path(), error);
  if (error) return Unavailable(directory, "create", error);
  ASSIGN_OR_RETURN(const io::FileLock lock,
                   io::FileLock::Wait(folder.string() + ".lock", SteadyNow() + options.timeout));
  if (IsComplete(folder, options)) return absl::OkStatus();  // another process wrote it while this one waited
  RETURN_IF_ERROR(CheckReplaceable(folder, options));
  if (lock.held()) RemoveStale(folder);

  fs::path beside = folder;
  beside += absl::StrCat(kBeside, getpid());
  if (!fs::create_directory(beside, error)) {
    return Unavailable(beside, "create", error ? error : std::make_error_code(std::errc::file_exists));
  }
  absl::Status status = WriteFiles(beside, options);
  if (status.ok()) status = Remove(folder);
  if (status.ok()) {
    fs::rename(beside, folder, error);
    // Without locks, another process may have been faster.
    if (error && !IsComplete(folder, options)) status = Unavailable(folder, "rename into place", error);
  }
  fs::remove_all(beside, error);  // if it is still there
  return status;
}

absl::StatusOr<std::string> PlaceTextures(const std::string& directory, const TextureOptions& options) {
  absl::Status status;
  for (int number = 1; number <= kMaxPlaces; ++number) {
    const std::string place = number == 1 ? directory : absl::StrCat(directory, "_", number);
    status = WriteTextures(place, options);
    if (status.ok()) return place;
    if (!absl::IsFailedPrecondition(status)) break;
  }
  return status;
}

}  // namespace belfry::data
