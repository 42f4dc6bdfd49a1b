# libbelfry: all folders in one library; and libbelfry_cuda, the module with all that needs CUDA, which libbelfry loads when
# a GPU is asked for (framework/base/module.h).
get_property(folders GLOBAL PROPERTY BELFRY_LIBRARIES)
add_library(belfry)
set(belfry_objects)
foreach(folder IN LISTS folders)
  target_sources(belfry PRIVATE $<TARGET_OBJECTS:${folder}>)
  list(APPEND belfry_objects $<TARGET_OBJECTS:${folder}>)
endforeach()
target_compile_features(belfry PUBLIC cxx_std_20)
# A project that has Belfry as a subdirectory uses it as if it were installed: Belfry::belfry and "belfry.h".
add_library(Belfry::belfry ALIAS belfry)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/include/belfry.h CONTENT "#include \"trainers/belfry.h\"\n")
target_include_directories(belfry PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:include/belfry>)
# For the headers that programs include, and for libbelfry's sources.
set(belfry_public_libraries absl::core_headers absl::function_ref absl::hash absl::inlined_vector absl::span absl::status
  absl::statusor absl::str_format absl::strings absl::synchronization absl::time Threads::Threads)
set(belfry_private_libraries DNNL::dnnl JPEG::JPEG nlohmann_json::nlohmann_json OpenMP::OpenMP_CXX PNG::PNG protobuf::libprotobuf-lite
  spdlog::spdlog ${CMAKE_DL_LIBS})
target_link_libraries(belfry PUBLIC ${belfry_public_libraries} PRIVATE ${belfry_private_libraries})
set_target_properties(belfry PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(BELFRY_SANITIZE)
  target_link_options(belfry PUBLIC -fsanitize=${BELFRY_SANITIZE})
endif()
if(BUILD_SHARED_LIBS)
  belfry_export_symbols(belfry)
else()
  belfry_keep_processor_check(belfry)
endif()

# For tests and benchmarks of internals: what headers need that programs do not include.
add_library(belfry_internals INTERFACE)
target_link_libraries(belfry_internals INTERFACE belfry Eigen3::Eigen fmt::fmt OpenMP::OpenMP_CXX spdlog::spdlog)
target_include_directories(belfry_internals SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/generated)

# The modules that this machine can build, perhaps none; programs load them, so nothing depends on them.
add_custom_target(belfry_modules)
if(BELFRY_HAS_CUDA)
  add_dependencies(belfry_modules belfry_cuda)
  add_library(belfry_cuda SHARED)
  target_link_libraries(belfry_cuda PRIVATE belfry_device_cuda belfry_collective_cuda belfry_ops_cuda belfry)
  set_target_properties(belfry_cuda PROPERTIES LINKER_LANGUAGE CXX)
  belfry_export_symbols(belfry_cuda)
endif()
foreach(library IN LISTS BELFRY_MPI_LIBRARIES)
  set(module belfry_mpi_${library})
  add_dependencies(belfry_modules ${module})
  add_library(${module} SHARED)
  target_link_libraries(${module} PRIVATE belfry_collective_${library} belfry ${BELFRY_${library}_LIBRARY})
  set_target_properties(${module} PROPERTIES LINKER_LANGUAGE CXX)
  belfry_export_symbols(${module})
endforeach()
