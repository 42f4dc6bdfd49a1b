# Installs, each as a component that becomes a Debian package (package.cmake): the library, the one for inference, the modules,
# headers with the CMake package and the files for pkg-config, and the programs with their man pages.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Modules find libbelfry beside them, and the libraries of CUDA and MPI where they were found; the programs find libbelfry from
# where they lie, so that the installed tree can be moved.
file(RELATIVE_PATH lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
install(TARGETS belfry EXPORT BelfryTargets
  LIBRARY COMPONENT library NAMELINK_COMPONENT development ARCHIVE COMPONENT development)
install(TARGETS belfry_inference EXPORT BelfryTargets
  LIBRARY COMPONENT inference NAMELINK_COMPONENT development ARCHIVE COMPONENT development)
# The same libraries compiled for higher levels of x86-64, from build folders of their own: the loader takes the highest that
# the processor has (ld.so(8), glibc-hwcaps).
set(BELFRY_LEVEL_BUILDS "" CACHE STRING "Build folders with the libraries for other levels, called *-x86-64-v3 and so on")
foreach(folder IN LISTS BELFRY_LEVEL_BUILDS)
  string(REGEX MATCH "x86-64-v[0-9]$" level ${folder})
  if(NOT level)
    message(FATAL_ERROR "BELFRY_LEVEL_BUILDS: ${folder} does not end in a level, such as x86-64-v3")
  endif()
  set(hwcaps ${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/${level})
  install(DIRECTORY ${folder}/lib/ DESTINATION ${hwcaps} COMPONENT library FILES_MATCHING PATTERN "libbelfry.so.*")
  install(DIRECTORY ${folder}/lib/ DESTINATION ${hwcaps} COMPONENT inference
    FILES_MATCHING PATTERN "libbelfry_inference.so.*")
endforeach()
set(modules ${BELFRY_MPI_LIBRARIES})
list(TRANSFORM modules PREPEND mpi_)
if(BELFRY_HAS_CUDA)
  list(APPEND modules cuda)
endif()
foreach(module IN LISTS modules)
  string(REPLACE "mpi_" "" component ${module})
  set_target_properties(belfry_${module} PROPERTIES INSTALL_RPATH $ORIGIN INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS belfry_${module} LIBRARY COMPONENT ${component})
endforeach()

# Man pages are made from --help when they are installed, which costs builds nothing.
set(man_dir ${PROJECT_BINARY_DIR}/man)
get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR}/trainers PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH $ORIGIN/${lib_from_bin})
    install(TARGETS ${target} COMPONENT programs)
    install(CODE "file(MAKE_DIRECTORY ${man_dir})
      execute_process(COMMAND $<TARGET_FILE:${target}> --help
        COMMAND awk -v version=${PROJECT_VERSION} -f ${CMAKE_CURRENT_LIST_DIR}/man_page.awk
        COMMAND gzip -9n OUTPUT_FILE ${man_dir}/${target}.1.gz COMMAND_ERROR_IS_FATAL ANY)" COMPONENT programs)
    install(FILES ${man_dir}/${target}.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
  endif()
endforeach()

# Without internal headers: those that show Eigen, oneDNN or cuDNN, those of the module, and those of the programs.
install(DIRECTORY framework ops optim models trainers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/belfry COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*_impl.h" EXCLUDE PATTERN "ops/onednn" EXCLUDE PATTERN "ops/cudnn" EXCLUDE
  PATTERN "trainers/flags" EXCLUDE PATTERN "trainers/audit" EXCLUDE PATTERN "trainers/plots" EXCLUDE PATTERN "trainers/belfry.h" EXCLUDE
  PATTERN "half.h" EXCLUDE PATTERN "base/library" EXCLUDE PATTERN "device/cuda" EXCLUDE PATTERN "collective/cuda" EXCLUDE PATTERN "collective/mpi" EXCLUDE PATTERN "gpu_reduce.h" EXCLUDE
  PATTERN "gpu_module.h" EXCLUDE PATTERN "ops/cublas" EXCLUDE PATTERN "ops/gpu" EXCLUDE PATTERN "ops/module" EXCLUDE PATTERN "csv_regression.h" EXCLUDE
  PATTERN "trainers/language_data.h" EXCLUDE
  PATTERN "trainers/pictures" EXCLUDE PATTERN "trainers/recipes" EXCLUDE PATTERN "fixed_points.h" EXCLUDE PATTERN "language_program.h" EXCLUDE
  PATTERN "trainers/moments.h" EXCLUDE PATTERN "row_split.h" EXCLUDE PATTERN "trainers/tabular" EXCLUDE
  PATTERN "models/inference" EXCLUDE)
install(FILES trainers/belfry.h models/inference/belfry_inference.h models/inference/belfry_inference.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/belfry COMPONENT development)

# The pages and the examples, as they lie here, so that their links hold.
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/belfry COMPONENT development)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/belfry COMPONENT development PATTERN docs/site EXCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Belfry)
install(EXPORT BelfryTargets NAMESPACE Belfry:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/BelfryConfig.cmake.in ${PROJECT_BINARY_DIR}/BelfryConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BelfryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BelfryConfig.cmake ${PROJECT_BINARY_DIR}/BelfryConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)

# A static libbelfry has more dependencies than all of them have pkg-config files for.
if(BUILD_SHARED_LIBS)
  file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  get_target_property(libraries belfry INTERFACE_LINK_LIBRARIES)
  list(FILTER libraries INCLUDE REGEX "^absl::")
  list(TRANSFORM libraries REPLACE "absl::" "absl_")
  list(JOIN libraries " " requires)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/belfry.pc.in ${PROJECT_BINARY_DIR}/belfry.pc @ONLY)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/belfry_inference.pc.in ${PROJECT_BINARY_DIR}/belfry_inference.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/belfry.pc ${PROJECT_BINARY_DIR}/belfry_inference.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()
