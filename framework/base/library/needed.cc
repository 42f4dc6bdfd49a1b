#include "framework/base/library/needed.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace belfry {
namespace {

constexpr uint64_t kMaxBytes = 16 << 20;  // of one table; those of real libraries are a few KiB

// `count` records at `offset`, or none if the file ends before.
template <class T>
std::vector<T> ReadTable(std::ifstream& file, uint64_t offset, uint64_t count) {
  if (count > kMaxBytes / sizeof(T)) return {};
  std::vector<T> table(count);
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(table.data()), static_cast<std::streamsize>(count * sizeof(T)));
  return file ? table : std::vector<T>();
}

bool IsElf(const ElfW(Ehdr) & header) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == kClass &&
         header.e_phentsize == sizeof(ElfW(Phdr));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> NeededLibraries(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path.string(), " cannot be read"));
  const auto header = ReadTable<ElfW(Ehdr)>(file, 0, 1);
  if (header.empty() || !IsElf(header[0])) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is not a shared library of this machine"));
  }
  const auto segments = ReadTable<ElfW(Phdr)>(file, header[0].e_phoff, header[0].e_phnum);
  std::vector<ElfW(Dyn)> entries;
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type == PT_DYNAMIC) {
      entries = ReadTable<ElfW(Dyn)>(file, segment.p_offset, segment.p_filesz / sizeof(ElfW(Dyn)));
    }
  }
  uint64_t address = 0, bytes = 0;  // of the names
  for (const ElfW(Dyn) & entry : entries) {
    if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) bytes = entry.d_un.d_val;
  }
  std::vector<char> names;
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz)
      continue;
    names = ReadTable<char>(file, segment.p_offset + (address - segment.p_vaddr), bytes);
  }
  std::vector<std::string> needed;
  for (const ElfW(Dyn) & entry : entries) {
    if (entry.d_tag != DT_NEEDED || entry.d_un.d_val >= names.size()) continue;
    const char* const name = names.data() + entry.d_un.d_val;
    needed.emplace_back(name, strnlen(name, names.size() - entry.d_un.d_val));
  }
  return needed;
}

}  // namespace belfry
