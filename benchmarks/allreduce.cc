// Benchmark of all-reduce: time by size, and bandwidths as nccl-tests defines them. Every size is checked before it is
// timed.
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/allreduce_run.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "benchmarks/report.h"
#include "framework/base/status.h"

ABSL_FLAG(std::string, devices, "cpu:2", "Devices, with one rank on each: cpu:N or gpu:N.");
ABSL_FLAG(std::string, averager, "local", "Averager: local, or nccl for GPUs.");
ABSL_FLAG(int64_t, smallest, 1024, "Size of the smallest average in bytes.");
ABSL_FLAG(int64_t, largest, int64_t{64} << 20, "Size of the largest average in bytes.");
ABSL_FLAG(int, rounds, 5, "Measurements of each size.");
ABSL_FLAG(double, seconds, 0.2, "Approximate length of a measurement in seconds.");
ABSL_FLAG(std::string, out, "", "Directory for results as JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

constexpr double kTolerance = 1e-5;

absl::Status Run() {
  const int64_t smallest = absl::GetFlag(FLAGS_smallest), largest = absl::GetFlag(FLAGS_largest);
  const std::string averager = absl::GetFlag(FLAGS_averager), spec = absl::GetFlag(FLAGS_devices);
  if (smallest < 4 || largest < smallest || absl::GetFlag(FLAGS_rounds) < 1) {
    return absl::InvalidArgumentError(
        "--smallest must be at least 4, --largest at least --smallest, and --rounds at least 1");
  }
  ASSIGN_OR_RETURN(const CollectiveFactory factory, FindAverager(averager));
  ASSIGN_OR_RETURN(const DeviceSet devices, DeviceSet::Open(spec));
  const auto ranks = static_cast<int>(devices.TowerDevices().size());
  Report report("allreduce", absl::StrCat("Mean of float32 over ", spec, " by ", averager, ", ", ranks,
                                          " ranks: microseconds, GB/s"));
  double best = 0;
  for (int64_t bytes = smallest; bytes <= largest; bytes *= 4) {
    ASSIGN_OR_RETURN(
        const AllReduceResult result,
        RunAllReduce(devices, factory, bytes / 4, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
    if (!(result.largest_error <= kTolerance)) {
      return absl::DataLossError(absl::StrCat(
          "the mean of ", bytes, " bytes is wrong: an element has a relative error of ", result.largest_error));
    }
    const double seconds = Median(result.seconds);
    const double algorithm = AlgorithmBandwidth(static_cast<double>(bytes), seconds);
    std::vector<double> microseconds = result.seconds;
    for (double& value : microseconds) value *= 1e6;
    nlohmann::ordered_json row = {{"bytes", bytes}};
    AddSpread(row, "us", microseconds);
    row["algorithm_GB/s"] = algorithm / 1e9;
    row["bus_GB/s"] = BusBandwidth(algorithm, ranks) / 1e9;
    row["largest_error"] = result.largest_error;
    report.Add(std::move(row));
    best = std::max(best, BusBandwidth(algorithm, ranks) / 1e9);
  }
  report.Summarize(absl::StrCat("all-reduce over ", spec, ": up to ", ShortNumber(best), " GB/s of bus bandwidth"));
  return report.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(argc, argv, "Measures the bandwidth of averaging between devices.",
                                          belfry::benchmarks::Run);
}
