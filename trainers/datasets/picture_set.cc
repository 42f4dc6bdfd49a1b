#include "trainers/datasets/picture_set.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/philox.h"
#include "framework/base/status.h"
#include "framework/data/pictures/resize.h"
#include "framework/io/pictures/picture.h"
#include "trainers/datasets/texture_image.h"
#include "trainers/datasets/textures.h"

namespace belfry::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTextureSize = 32;
constexpr int kQuality = 90;

// Picture `index` of a class.
io::Picture Draw(uint64_t key, int64_t index, int label) {
  std::vector<uint8_t> planes(3 * kTextureSize * kTextureSize);
  DrawTextureImage(key, index, label, planes.data());
  io::Picture small{kTextureSize, kTextureSize, 3, std::vector<uint8_t>(planes.size())};
  for (int64_t i = 0; i < kTextureSize * kTextureSize; ++i) {
    for (int64_t c = 0; c < 3; ++c) small.pixels[3 * i + c] = planes[c * kTextureSize * kTextureSize + i];
  }
  constexpr uint32_t kSmallest = 48, kRange = 80;
  PhiloxStream random(key, static_cast<uint64_t>(index));
  io::Picture picture{kSmallest + random.NextBelow(kRange), kSmallest + random.NextBelow(kRange), 3, {}};
  picture.pixels.resize(3 * picture.height * picture.width);
  ResizeScratch scratch;
  ResizePicture(small, {0, 0, kTextureSize, kTextureSize}, picture.height, picture.width, Resampling::kBilinear,
                picture.pixels.data(), scratch);
  return picture;
}

absl::Status WritePart(const fs::path& folder, uint64_t key, int64_t count) {
  for (const absl::string_view name : kTextureNames) {
    std::error_code error;
    fs::create_directories(folder / std::string(name), error);
    if (error)
      return absl::UnavailableError(absl::StrCat((folder / std::string(name)).string(), ": ", error.message()));
  }
  for (int64_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(i % static_cast<int64_t>(kTextureNames.size()));
    ASSIGN_OR_RETURN(const std::string bytes, io::EncodeJpeg(Draw(key, i, label), kQuality));
    const fs::path file = folder / std::string(kTextureNames[label]) / absl::StrFormat("%05d.jpg", i);
    // The folder becomes visible as a whole, so that none of its files need be.
    std::ofstream out(file, std::ios::binary);
    out << bytes;
    out.close();
    if (!out) return absl::UnavailableError(absl::StrCat(file.string(), ": cannot be written"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WritePictureSet(const std::string& folder, const PictureSetOptions& options) {
  std::error_code error;
  if (fs::exists(folder, error)) return absl::OkStatus();
  const fs::path beside = absl::StrCat(folder, ".tmp.", getpid());
  absl::Status status = WritePart(beside / "train", RandomKey(options.seed, "pictures/train"), options.training);
  if (status.ok()) status = WritePart(beside / "val", RandomKey(options.seed, "pictures/val"), options.validation);
  if (status.ok()) fs::rename(beside, folder, error);
  std::error_code ignored;
  fs::remove_all(beside, ignored);
  // Another process may have been faster.
  if (!status.ok() || !error || fs::exists(folder, ignored)) return status;
  return absl::UnavailableError(absl::StrCat(folder, ": ", error.message()));
}

}  // namespace belfry::data
