#include "framework/base/launcher.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace belfry {

Launch FindLaunch(const Environment& environment) {
  struct Known {
    const char* name;
    const char* variable;  // the number of processes
  };
  // An mpirun that Slurm started may find the variables of both: the first is the one that started the processes.
  constexpr Known kKnown[] = {
      {"Open MPI", "OMPI_COMM_WORLD_SIZE"}, {"MPICH or Intel MPI", "PMI_SIZE"}, {"srun", "SLURM_STEP_NUM_TASKS"}};
  for (const Known& known : kKnown) {
    const char* const text = environment(known.variable);
    int processes = 0;
    if (text == nullptr || !absl::SimpleAtoi(text, &processes) || processes < 1) continue;
    return {processes, absl::StrCat(known.name, " (", known.variable, "=", processes, ")")};
  }
  return {};
}

}  // namespace belfry
