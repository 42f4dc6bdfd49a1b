// Decoded pictures that are read again. Internal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/data/pictures/pictures.h"
#include "framework/io/pictures/picture.h"

namespace belfry::data {

// Keeps the pictures that come first, until they fill it; those that do not fit are decoded whenever they are read, so
// that every epoch finds the same ones. Thread-safe, without locks.
class PictureCache {
 public:
  // Room for pictures by number, from 0 to `count` - 1. ResourceExhausted: no memory, or too little room on the disk.
  // Other errors are those of making a file in the folder.
  static absl::StatusOr<std::unique_ptr<PictureCache>> Make(const PictureCacheOptions& options, int64_t count);
  PictureCache(const PictureCache&) = delete;
  PictureCache& operator=(const PictureCache&) = delete;
  ~PictureCache();

  // The picture, if it is kept.
  std::optional<io::Pixels> Find(int64_t number) const;
  // Keeps the picture if there is room for it.
  void Add(int64_t number, const io::Pixels& picture);

 private:
  struct Header {
    int64_t height, width;
    int channels;
  };
  PictureCache(std::byte* memory, size_t bytes, int64_t count);

  std::byte* const memory_;
  const size_t bytes_;
  std::atomic<size_t> used_{0};
  std::vector<std::atomic<const Header*>> pictures_;  // the pixels follow the header; null if it is not kept
};

}  // namespace belfry::data
