#include "framework/base/launcher.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace belfry {

Launch FindLaunch(const Environment& environment) {
  struct Known {
    const char* name;
    const char* variable;  // the number of processes
    const char* mpi;
  };
  // Under an mpirun within a Slurm job the variables of both are set: the first started the processes. Open MPI
  // understands srun --mpi=pmix, and MPICH srun --mpi=pmi2.
  const char* const slurm = environment("PMIX_RANK") != nullptr  ? "openmpi"
                            : environment("PMI_RANK") != nullptr ? "mpich"
                                                                 : "";
  const Known kKnown[] = {{"Open MPI", "OMPI_COMM_WORLD_SIZE", "openmpi"},
                          {"MPICH or Intel MPI", "PMI_SIZE", "mpich"},
                          {"srun", "SLURM_STEP_NUM_TASKS", slurm}};
  Launch launch;
  for (const Known& known : kKnown) {
    const char* const text = environment(known.variable);
    int processes = 0;
    if (text == nullptr || !absl::SimpleAtoi(text, &processes) || processes < 1) continue;
    // A count of one may be left over from another launcher and must not hide one that started several.
    if (!launch.launcher.empty() && processes == 1) continue;
    launch = {processes, absl::StrCat(known.name, " (", known.variable, "=", processes, ")"), known.mpi};
    if (processes > 1) break;
  }
  return launch;
}

Launch FindLaunch() {
  return FindLaunch([](const char* name) { return std::getenv(name); });
}

}  // namespace belfry
