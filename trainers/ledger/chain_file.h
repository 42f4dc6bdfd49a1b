// Files of records, each of which carries a digest of itself and all records before it:
//
//   {"record":"start","step":0,...,"hash":"9f3c..."}
//   {"record":"batches","step":100,...,"hash":"07d1..."}
//
// A line is a JSON object whose last member, "hash", is io::DigestText of the hash of the line before (32 zeros before
// the first) and the line up to that member. So a changed record does not match its own hash, and a record that is
// removed, added or moved does not match that of the next.
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::trainers {

// The limit for io::ReadFile of files of a run, which may be long.
inline constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

// One line of a chain's file.
struct ChainLine {
  std::string text = {};  // the object without its hash, "{"record":"start","step":0}"; what is there, if it is damaged
  std::string hash = {};  // as the line has it
  uint64_t end = 0;       // offset in the file of the next line
  bool whole = false;     // a newline ends it
  bool intact = false;    // it has the hash of its text and of the line before
};

// A number, or a text without quotes in it, of a record of ours; "" if it has none. A parsed object would need memory
// to be destroyed.
absl::string_view MemberOf(absl::string_view record, absl::string_view name);

// The lines of a file, of any bytes. The last one is not intact if no newline ends it.
std::vector<ChainLine> ParseChain(absl::string_view bytes);
// Errors: those of io::ReadFile.
absl::StatusOr<std::vector<ChainLine>> ReadChain(const std::string& path);

// Appends records to a file. Movable; not thread-safe.
class ChainWriter {
 public:
  // Opens `path`, creates it if need be, and drops all that comes after byte `size`, where the line with `hash` ends; 0
  // and "" for an empty chain. Errors: those of opening and truncating files.
  static absl::StatusOr<ChainWriter> Open(const std::string& path, uint64_t size, absl::string_view hash);

  // Appends a record; a killed process leaves at most one partial line, the last. `object`: a JSON object with a member
  // at least, on one line. Errors: as of io::WriteFile; what was written of the record is then cut off.
  absl::Status Append(absl::string_view object);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_, hash_;
  uint64_t size_ = 0;  // of the file
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace belfry::trainers
