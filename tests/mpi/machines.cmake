# Launchers of clusters, and several machines, on this one. Each test is skipped, with the reason, where Slurm, network
# namespaces or root are missing.
if(BELFRY_MPI_LIBRARIES)
  set(mpiruns)
  foreach(library IN LISTS BELFRY_MPI_LIBRARIES)
    list(APPEND mpiruns ${library}=${BELFRY_${library}_MPIEXEC})
  endforeach()
  add_test(NAME Mpi.Slurm
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/slurm.sh $<TARGET_FILE:cifar10> ${BELFRY_MPI_LIBRARIES})
  add_test(NAME Mpi.Machines COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/namespaces.sh $<TARGET_FILE:cifar10> ${mpiruns})
  set_tests_properties(Mpi.Slurm Mpi.Machines PROPERTIES LABELS mpi TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
