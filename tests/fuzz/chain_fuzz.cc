// Input: the chain of a run.
#include "tests/fuzz/fuzz.h"
#include "trainers/audit/run_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace belfry::trainers;
  std::vector<ChainLine> lines = ParseChain(belfry::fuzz::Input(data, size).Rest());
  ParseRun("run", lines);
  // Also as if each line had the right hash, which made-up bytes never have.
  for (ChainLine& line : lines) line.intact = true;
  const RunRecord run = ParseRun("run", lines);
  BELFRY_CHECK(run.records == lines.size());
  return 0;
}
