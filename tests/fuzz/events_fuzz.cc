// Input: a file or, if its first byte is odd, one event, which is framed as a record with checksums.
#include "framework/io/event_file.h"
#include "tests/framework/io/event_reader.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry;
  using namespace belfry::io;
  fuzz::Input input(data, size);
  const bool framed = input.Byte() % 2 == 0;
  const std::string rest(input.Rest());
  const std::string bytes = framed ? rest : FrameRecord(rest);
  const auto file = ParseEventFile(bytes);
  if (!file.ok()) {
    BELFRY_CHECK(file.status().code() == absl::StatusCode::kDataLoss);
    return 0;
  }
  BELFRY_CHECK(framed || (file->events.size() == 1 && !file->truncated));
  if (file->truncated) return 0;
  const auto longer = ParseEventFile(bytes + "x");
  BELFRY_CHECK(longer.ok() && longer->truncated && longer->events.size() == file->events.size());
  return 0;
}
