#include "framework/base/launcher.h"

#include <map>
#include <string>

#include "tests/main/testing.h"

namespace belfry {
namespace {

Launch Find(const std::map<std::string, std::string>& variables) {
  return FindLaunch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launcher, NoneByDefault) {
  EXPECT_EQ(Find({}).processes, 1);
  EXPECT_EQ(Find({}).launcher, "");
  // A batch script, or a shell that salloc gave, is one process whatever the size of the job.
  EXPECT_EQ(Find({{"SLURM_NTASKS", "8"}, {"SLURM_NPROCS", "8"}, {"SLURM_JOB_ID", "7"}}).processes, 1);
}

TEST(Launcher, EachIsKnownByItsVariable) {
  EXPECT_EQ(Find({{"OMPI_COMM_WORLD_SIZE", "4"}}).processes, 4);
  EXPECT_EQ(Find({{"OMPI_COMM_WORLD_SIZE", "4"}}).launcher, "Open MPI (OMPI_COMM_WORLD_SIZE=4)");
  EXPECT_EQ(Find({{"PMI_SIZE", "3"}}).processes, 3);
  EXPECT_EQ(Find({{"PMI_SIZE", "3"}}).launcher, "MPICH or Intel MPI (PMI_SIZE=3)");
  EXPECT_EQ(Find({{"SLURM_STEP_NUM_TASKS", "16"}}).processes, 16);
  EXPECT_EQ(Find({{"OMPI_COMM_WORLD_SIZE", "1"}}).processes, 1);
}

TEST(Launcher, TheLibraryIsTheLaunchers) {
  EXPECT_EQ(Find({}).mpi, "");
  EXPECT_EQ(Find({{"OMPI_COMM_WORLD_SIZE", "4"}}).mpi, "openmpi");
  EXPECT_EQ(Find({{"PMI_SIZE", "4"}}).mpi, "mpich");
  EXPECT_EQ(Find({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "0"}}).mpi, "openmpi");
  EXPECT_EQ(Find({{"SLURM_STEP_NUM_TASKS", "4"}, {"PMI_RANK", "0"}}).mpi, "mpich");
  EXPECT_EQ(Find({{"SLURM_STEP_NUM_TASKS", "4"}}).mpi, "");
}

TEST(Launcher, TheOneThatStartedTheProcessWins) {
  // mpirun starts its daemons with srun, one on each machine.
  EXPECT_EQ(Find({{"SLURM_STEP_NUM_TASKS", "2"}, {"OMPI_COMM_WORLD_SIZE", "8"}}).processes, 8);
  EXPECT_EQ(Find({{"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_SIZE", "8"}}).processes, 8);
}

TEST(Launcher, OneProcessHidesNoOtherLauncher) {
  EXPECT_EQ(Find({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "2"}}).launcher, "MPICH or Intel MPI (PMI_SIZE=2)");
  EXPECT_EQ(Find({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}}).processes, 8);
  EXPECT_EQ(Find({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "1"}}).launcher, "Open MPI (OMPI_COMM_WORLD_SIZE=1)");
}

TEST(Launcher, NonsenseIsNoLauncher) {
  for (const char* text : {"", "many", "0", "-4", "99999999999", "4x"}) {
    EXPECT_EQ(Find({{"OMPI_COMM_WORLD_SIZE", text}}).processes, 1) << text;
  }
}

}  // namespace
}  // namespace belfry
