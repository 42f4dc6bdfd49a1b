# Installs the headers, libbelfry, the CUDA module beside it, the programs, and what find_package(Belfry) reads.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The module finds libbelfry beside itself, and CUDA's libraries where they were found; the programs find libbelfry from
# where they lie, so that the installed tree can be moved.
file(RELATIVE_PATH lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
install(TARGETS belfry EXPORT BelfryTargets)
if(BELFRY_HAS_CUDA)
  set_target_properties(belfry_cuda PROPERTIES INSTALL_RPATH $ORIGIN INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS belfry_cuda LIBRARY)
endif()
foreach(library IN LISTS BELFRY_MPI_LIBRARIES)
  set_target_properties(belfry_mpi_${library} PROPERTIES INSTALL_RPATH $ORIGIN INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS belfry_mpi_${library} LIBRARY)
endforeach()

get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR}/trainers PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH $ORIGIN/${lib_from_bin})
    install(TARGETS ${target})
  endif()
endforeach()

# Without internal headers: those that show Eigen, oneDNN or cuDNN, those of the module, and those of the programs.
install(DIRECTORY framework ops optim models trainers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/belfry
  FILES_MATCHING PATTERN "*.h" PATTERN "*_impl.h" EXCLUDE PATTERN "ops/onednn" EXCLUDE PATTERN "ops/cudnn" EXCLUDE
  PATTERN "trainers/flags" EXCLUDE PATTERN "trainers/plots" EXCLUDE
  PATTERN "half.h" EXCLUDE PATTERN "device/cuda" EXCLUDE PATTERN "collective/cuda" EXCLUDE PATTERN "collective/mpi" EXCLUDE PATTERN "gpu_reduce.h" EXCLUDE
  PATTERN "gpu_module.h" EXCLUDE PATTERN "ops/gpu" EXCLUDE PATTERN "csv_regression.h" EXCLUDE
  PATTERN "hand_made_towers.h" EXCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Belfry)
install(EXPORT BelfryTargets NAMESPACE Belfry:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/BelfryConfig.cmake.in ${PROJECT_BINARY_DIR}/BelfryConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BelfryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BelfryConfig.cmake ${PROJECT_BINARY_DIR}/BelfryConfigVersion.cmake
  DESTINATION ${package_dir})
