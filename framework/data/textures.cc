#include "framework/data/textures.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/parallel.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "framework/data/file.h"
#include "framework/data/texture_image.h"

namespace belfry::data {

const std::array<absl::string_view, kCifar10Classes> kTextureNames = {
    "striped_disc",       "checkered_disc", "striped_square",  "checkered_square", "striped_triangle",
    "checkered_triangle", "striped_cross",  "checkered_cross", "striped_ring",     "checkered_ring"};

namespace {

namespace fs = std::filesystem;

constexpr int64_t kImagesPerFile = 10'000;
constexpr int kVersion = 1;  // of what TextureImage draws

std::string Describe(const TextureOptions& options) {
  return absl::StrCat("textured shapes, version ", kVersion, ", seed ", options.seed, ", ", options.training_images,
                      " training and ", options.test_images, " test images\n");
}

// Records [first, first + count) of the part that `key` stands for.
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

absl::Status WritePart(const fs::path& path, uint64_t key, int64_t first, int64_t count) {
  return WriteFile(path.string(), Records(key, first, count));
}

}  // namespace

absl::Status WriteTextures(const std::string& directory, const TextureOptions& options) {
  if (options.training_images < 1 || options.test_images < 1) {
    return absl::InvalidArgumentError(absl::StrCat(options.training_images, " training and ", options.test_images,
                                                   " test images; expected at least one of each"));
  }
  const fs::path folder(directory), marker = folder / "textures.txt";
  const auto file = [&](int64_t number) { return folder / absl::StrCat("data_batch_", number, ".bin"); };
  std::error_code error;
  if (fs::exists(marker, error)) {
    ASSIGN_OR_RETURN(const std::string found, ReadFile(marker.string()));
    if (found == Describe(options)) return absl::OkStatus();
    fs::remove(marker, error);
  } else if (fs::exists(file(1), error) || fs::exists(folder / "test_batch.bin", error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, ": holds a data set without textures.txt, so not a generated one; name another place"));
  }
  fs::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat(directory, ": cannot create: ", error.message()));

  const uint64_t training_key = RandomKey(options.seed, "textures/training");
  int64_t number = 1;
  for (int64_t first = 0; first < options.training_images; first += kImagesPerFile, ++number) {
    const int64_t count = std::min(kImagesPerFile, options.training_images - first);
    RETURN_IF_ERROR(WritePart(file(number), training_key, first, count));
  }
  while (fs::remove(file(number), error)) ++number;  // of a former, larger set
  RETURN_IF_ERROR(
      WritePart(folder / "test_batch.bin", RandomKey(options.seed, "textures/test"), 0, options.test_images));
  RETURN_IF_ERROR(
      WriteFile((folder / "batches.meta.txt").string(), absl::StrCat(absl::StrJoin(kTextureNames, "\n"), "\n")));
  // Last, so that an interrupted run is seen as such.
  return WriteFile(marker.string(), Describe(options));
}

}  // namespace belfry::data
