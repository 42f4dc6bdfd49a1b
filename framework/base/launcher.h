// Launchers: programs that start one program as several processes, such as mpirun and srun.
#pragma once

#include <functional>
#include <string>

namespace belfry {

// The launcher that started this process.
struct Launch {
  int processes = 1;     // that it started
  std::string launcher;  // "Open MPI (OMPI_COMM_WORLD_SIZE=4)"; empty: none
  std::string mpi;       // the MPI library by which they find each other: "openmpi", "mpich"; empty: none
};

// Returns the value of an environment variable, or null; std::getenv does.
using Environment = std::function<const char*(const char* name)>;

// What the environment says of the launcher: the variables that Open MPI, the process managers of MPICH and Intel MPI
// (PMI), and Slurm's srun set in the processes that they start. One process by default, and if a variable is not a
// number.
Launch FindLaunch(const Environment& environment);

}  // namespace belfry
