// What the memory of a training step is planned to: the arena beside the least that any plan of the same order could
// have, the most bytes in use at one moment, and beside the sum of all tensors, as if none shared memory.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "benchmarks/memory_plan.h"
#include "benchmarks/report.h"
#include "benchmarks/training_run.h"
#include "framework/base/status.h"
#include "framework/base/units.h"

ABSL_FLAG(std::string, models, "cifar_net,cifar_net_no_lrn,resnet20,resnet56,mlp,s5", "Models, as of `training`.");
ABSL_FLAG(std::string, devices, "cpu:1", "Devices, one tower on each; a row for each device.");
ABSL_FLAG(int64_t, batch_size, 0, "Examples of a step over all towers; 0: the model's own number.");
ABSL_FLAG(std::string, dtype, "float32", "What the network computes in: float32 or bfloat16.");
ABSL_FLAG(std::string, out, "", "A directory for JSON and CSV; empty: none.");

namespace belfry::benchmarks {
namespace {

absl::Status Run() {
  Report report("memory", absl::StrCat("Memory of a training step on ", absl::GetFlag(FLAGS_devices), ", ",
                                       absl::GetFlag(FLAGS_dtype), ": MiB"));
  double worst = 0;
  std::string worst_model;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(absl::GetFlag(FLAGS_models), ','))) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRun> run,
                     TrainingRun::Create({.model = name,
                                          .devices = absl::GetFlag(FLAGS_devices),
                                          .batch = absl::GetFlag(FLAGS_batch_size),
                                          .dtype = absl::GetFlag(FLAGS_dtype)}));
    const MemoryPlan& memory = run->prepared().plan().memory;
    for (int device : run->devices().TowerDevices()) {
      const auto arena = static_cast<double>(memory.arena_bytes[device]);
      const auto least = static_cast<double>(LeastArena(memory, device));
      const auto sum = static_cast<double>(memory.sum_bytes[device]);
      report.Add({{"model", name},
                  {"device", run->devices().device(device).name().ToLocalString()},
                  {"batch", run->batch()},
                  {"arena", arena / kMebi},
                  {"least", least / kMebi},
                  {"arena/least", least > 0 ? arena / least : 1},
                  {"sum", sum / kMebi},
                  {"arena/sum", sum > 0 ? arena / sum : 1}});
      if (least > 0 && arena / least > worst) {
        worst = arena / least;
        worst_model = name;
      }
    }
  }
  report.Summarize(
      absl::StrCat("planned memory: at most ", ShortNumber(worst), " times the least possible (", worst_model, ")"));
  return report.Finish(absl::GetFlag(FLAGS_out));
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Planned memory of training steps.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = belfry::benchmarks::Run();
  if (!status.ok()) std::fprintf(stderr, "Error: %s\n", status.ToString().c_str());
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
