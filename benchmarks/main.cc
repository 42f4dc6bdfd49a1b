#include "benchmarks/main.h"

#include <cstdio>
#include <cstdlib>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

namespace belfry::benchmarks {

int RunBenchmark(int argc, char** argv, absl::string_view usage, absl::FunctionRef<absl::Status()> run) {
  absl::SetProgramUsageMessage(usage);
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = run();
  if (!status.ok()) std::fprintf(stderr, "Error: %s\n", status.ToString().c_str());
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace belfry::benchmarks
