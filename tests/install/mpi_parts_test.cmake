# cmake -D source_dir=DIR -D build_dir=DIR -D cxx=COMPILER -D generator=NAME -P mpi_parts_test.cmake: configures a project with
# framework/cmake/mpi.cmake, for MPI installations of which parts are missing. Their compiler wrappers are scripts that fail.
cmake_policy(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/configure.cmake)
set(work_dir ${build_dir}/mpi_parts_test)
set(mpi ${work_dir}/mpi)
file(REMOVE_RECURSE ${work_dir})
file(WRITE ${work_dir}/project/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(Parts C CXX)
set(BUILD_SHARED_LIBS ON)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
include(${source_dir}/framework/cmake/mpi.cmake)
message(STATUS \"For: \${BELFRY_MPI_LIBRARIES}.\")
")

# expect(STATUS MESSAGES OPTIONS...): configuring ends with STATUS, 0 or 1, and says MESSAGES, a pattern, of MPI.
function(expect expected pattern)
  configure(status output -D CMAKE_PROGRAM_PATH=${mpi} ${ARGN})
  string(REGEX MATCHALL "(MPI: |Without MPI|For: |BELFRY_MPI=ON)[^\n]*" messages "${output}")
  string(JOIN " | " messages ${messages})
  if(NOT status EQUAL expected OR NOT messages MATCHES "^${pattern}")
    message(FATAL_ERROR "expected status ${expected} and '${pattern}', but got ${status}, '${messages}' and\n${output}")
  endif()
endfunction()

# wrapper(NAME SCRIPT)
function(wrapper name script)
  file(WRITE ${mpi}/${name} "#!/bin/sh\n${script}\n")
  file(CHMOD ${mpi}/${name} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

set(none "Without MPI \\| For: \\.")
set(open_mpi "MPI: [^ ]*/mpicc.openmpi is left out: it has no headers, which libopenmpi-dev brings")
expect(0 "${none}")
expect(1 "BELFRY_MPI=ON, but neither" -D BELFRY_MPI=ON)

# As of Debian's openmpi-bin alone.
wrapper(mpicc.openmpi "exit 1")
expect(0 "${open_mpi} \\| ${none}")
expect(1 "${open_mpi} \\| BELFRY_MPI=ON, but neither" -D BELFRY_MPI=ON)
file(CREATE_LINK mpicc.openmpi ${mpi}/mpicc SYMBOLIC)
expect(0 "${open_mpi} \\| ${none}")

# An MPI that is not Debian's.
file(REMOVE ${mpi}/mpicc ${mpi}/mpicc.openmpi)
wrapper(mpicc "exit 1")
expect(0 "MPI: [^ ]*/mpicc is left out: it has no headers, which libopenmpi-dev or libmpich-dev brings \\| ${none}")

# With headers and without libraries.
wrapper(mpicc.mpich "case $1 in -E) exit 0 ;; *) exit 1 ;; esac")
expect(0 "MPI: [^ ]*/mpicc.mpich is left out: it builds no programs \\| MPI: .*/mpicc is left out: it has no headers.* \\| ${none}")
file(REMOVE_RECURSE ${work_dir})
