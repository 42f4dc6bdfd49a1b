# Installs the headers, libraries and programs, and what find_package(Belfry) reads. Targets: Belfry::belfry is everything,
# Belfry::base, Belfry::graph and so on are one folder each.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(libraries GLOBAL PROPERTY BELFRY_LIBRARIES)
add_library(belfry INTERFACE)
target_link_libraries(belfry INTERFACE ${libraries})
foreach(library IN LISTS libraries)
  string(REGEX REPLACE "^belfry_" "" short ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${short})
endforeach()
install(TARGETS belfry ${libraries} EXPORT BelfryTargets)

get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR}/trainers PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    install(TARGETS ${target})
  endif()
endforeach()

# Without the internal headers, which show Eigen, oneDNN or cuDNN.
install(DIRECTORY framework ops optim models trainers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/belfry
  FILES_MATCHING PATTERN "*.h" PATTERN "*_impl.h" EXCLUDE PATTERN "ops/onednn" EXCLUDE PATTERN "ops/cudnn" EXCLUDE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Belfry)
install(EXPORT BelfryTargets NAMESPACE Belfry:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/BelfryConfig.cmake.in ${PROJECT_BINARY_DIR}/BelfryConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BelfryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BelfryConfig.cmake ${PROJECT_BINARY_DIR}/BelfryConfigVersion.cmake
  DESTINATION ${package_dir})
