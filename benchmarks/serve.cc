#include "benchmarks/serve.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/base/status.h"
#include "nlohmann/json.hpp"

namespace belfry::benchmarks {
namespace {

constexpr int kWarmUpSteps = 5;
constexpr double kMaxSeconds = 3600;

// Peak memory of the GPUs that carry towers or, if there are none, of this process.
absl::StatusOr<int64_t> PeakBytes(const TrainingRun& run, const MemoryUse& before) {
  int64_t of_gpus = 0;
  for (int tower : run.devices().TowerDevices()) {
    const Device& device = run.devices().device(tower);
    if (device.type() == "GPU") of_gpus += static_cast<int64_t>(device.counters().peak_bytes_in_use);
  }
  if (of_gpus > 0) return of_gpus;
  return PeakBeyond(before);
}

void Say(std::ostream& out, const nlohmann::json& message) { out << message.dump() << std::endl; }

}  // namespace

absl::StatusOr<double> ParseGo(absl::string_view line) {
  double seconds = 0;
  absl::string_view number = line;
  if (!absl::ConsumePrefix(&number, "go ") || !absl::SimpleAtod(number, &seconds) || !(seconds > 0) ||
      seconds > kMaxSeconds) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected \"go SECONDS\", up to ", kMaxSeconds, ", or \"quit\", not \"", line, "\""));
  }
  return seconds;
}

absl::StatusOr<int64_t> PeakBeyond(const MemoryUse& before) {
  ASSIGN_OR_RETURN(const MemoryUse now, ReadMemoryUse());
  return now.peak_bytes - before.anonymous_bytes;
}

absl::Status AnswerCommands(const std::vector<double>& compared, const Side& side,
                            absl::FunctionRef<absl::StatusOr<int64_t>()> peak_bytes, std::istream& in,
                            std::ostream& out) {
  Say(out, {{"losses", compared}, {"version", absl::StrCat("compiled by ", __VERSION__)}});
  for (std::string line; std::getline(in, line) && line != "quit";) {
    ASSIGN_OR_RETURN(const double seconds, ParseGo(line));
    ASSIGN_OR_RETURN(const double steps, Rate(side.step, seconds, side.finish));
    ASSIGN_OR_RETURN(const int64_t peak, peak_bytes());
    Say(out, {{"steps_per_second", steps}, {"peak_bytes", peak}});
  }
  return absl::OkStatus();
}

absl::Status Serve(TrainingRun& run, const MemoryUse& before, std::istream& in, std::ostream& out) {
  std::vector<double> losses;
  for (int i = 0; i < run.model().compared_losses; ++i) {
    RETURN_IF_ERROR(run.Step());
    losses.push_back(run.loss());
  }
  for (int i = 0; i < kWarmUpSteps; ++i) RETURN_IF_ERROR(run.Step());
  RETURN_IF_ERROR(run.Wait());
  // If this is not allowed, memory that was needed only for making the plan counts too.
  ForgetPeak().IgnoreError();
  return AnswerCommands(
      losses, SideOf("", run), [&] { return PeakBytes(run, before); }, in, out);
}

}  // namespace belfry::benchmarks
