// Launchers: programs that start one program as several processes, such as mpirun and srun.
#pragma once

#include <functional>
#include <string>

namespace belfry {

// The launcher that started this process.
struct Launch {
  int processes = 1;     // number of processes that it started
  std::string launcher;  // "Open MPI (OMPI_COMM_WORLD_SIZE=4)"; empty: none
  std::string mpi;       // the MPI library by which they find each other: "openmpi", "mpich"; empty: none
};

// Returns the value of an environment variable, or null; std::getenv does.
using Environment = std::function<const char*(const char* name)>;

// Finds the launcher from the variables that Open MPI, the process managers of MPICH and Intel MPI (PMI), and Slurm's
// srun set in the processes that they start. Returns one process if none is set; a variable that is not a number is
// ignored.
Launch FindLaunch(const Environment& environment);
// The same from the environment of this process.
Launch FindLaunch();

}  // namespace belfry
