#include "framework/data/pictures/picture_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/alignment.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/io/file.h"

namespace belfry::data {
namespace {

absl::Status NoRoom(absl::string_view where, size_t bytes, int error) {
  return absl::ResourceExhaustedError(absl::StrCat("No room for a cache of ", bytes, " bytes of pictures ", where, ": ",
                                                   std::strerror(error), "; ask for less"));
}

// A file of `bytes` bytes that has no name any more, so that it ends with the process. Its blocks are allocated now:
// a write to mapped memory that the disk has no room for would end the process.
absl::StatusOr<int> MakeFile(const std::string& folder, size_t bytes) {
  std::string path = absl::StrCat(folder, "/belfry_pictures.XXXXXX");
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return io::SystemError(folder, "cannot make a file in it for the cache of pictures", errno);
  unlink(path.c_str());
  if (const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)); error != 0) {
    close(descriptor);
    return NoRoom(absl::StrCat("in ", folder), bytes, error);
  }
  return descriptor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PictureCache>> PictureCache::Make(const PictureCacheOptions& options, int64_t count) {
  const auto bytes = static_cast<size_t>(options.bytes);
  int descriptor = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (!options.folder.empty()) {
    ASSIGN_OR_RETURN(descriptor, MakeFile(options.folder, bytes));
    flags = MAP_SHARED;
  }
  const AvailableMemory available = FindAvailableMemory();
  if (options.folder.empty() && bytes > available.bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("A cache of ", bytes, " bytes of pictures is more than the ",
                                                     available.bytes, " that are left of ", available.limit,
                                                     "; ask for less, or name a folder for it"));
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (memory == MAP_FAILED) return NoRoom("in memory", bytes, error);
  return std::unique_ptr<PictureCache>(new PictureCache(static_cast<std::byte*>(memory), bytes, count));
}

PictureCache::PictureCache(std::byte* memory, size_t bytes, int64_t count)
    : memory_(memory), bytes_(bytes), pictures_(static_cast<size_t>(count)) {}

PictureCache::~PictureCache() { munmap(memory_, bytes_); }

std::optional<io::Pixels> PictureCache::Find(int64_t number) const {
  const Header* const header = pictures_[number].load(std::memory_order_acquire);
  if (header == nullptr) return std::nullopt;
  const auto* const pixels = reinterpret_cast<const uint8_t*>(header + 1);
  return io::Pixels{header->height, header->width, header->channels, pixels};
}

// Two threads may add the same picture; the room of the second is lost.
void PictureCache::Add(int64_t number, const io::Pixels& picture) {
  const auto pixels = static_cast<size_t>(picture.height * picture.width * picture.channels);
  const size_t size = AlignUp(sizeof(Header) + pixels);
  size_t at = used_.load(std::memory_order_relaxed);
  do {
    if (size > bytes_ - at) return;
  } while (!used_.compare_exchange_weak(at, at + size, std::memory_order_relaxed));
  auto* const header = new (memory_ + at) Header{picture.height, picture.width, picture.channels};
  std::memcpy(header + 1, picture.values, pixels);
  const Header* none = nullptr;
  pictures_[number].compare_exchange_strong(none, header, std::memory_order_release, std::memory_order_relaxed);
}

}  // namespace belfry::data
