# How the project's targets are made: one folder is one belfry_library, all of them together are libbelfry.

# The version and a digest of the headers that modules share with libbelfry (framework/base/version.h).
set(module_headers framework/base/module.h framework/base/tensor.h framework/collective/collective.h
  framework/collective/gpu_module.h framework/collective/gpu_reduce.h framework/collective/mpi/mpi_api.h
  framework/collective/nccl_api.h
  framework/device/device.h framework/device/device_set.h framework/device/gpu_module.h framework/graph/kernel.h
  framework/graph/kernel_table.h framework/graph/op_def.h ops/gpu/gpu_module.h)
set(digests)
foreach(header IN LISTS module_headers)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(SHA256 ${PROJECT_SOURCE_DIR}/${header} digest)
  string(APPEND digests ${digest})
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 8 digest)
set(BELFRY_BUILD "${PROJECT_VERSION} (${digest})")

# belfry_library(NAME SOURCES... LINK TARGETS...): one folder of the project, compiled once. It may link only folders that
# stand below it, which are those that are defined before it.
function(belfry_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  foreach(link IN LISTS arg_LINK)
    if(link MATCHES "^belfry_" AND NOT TARGET ${link})
      message(FATAL_ERROR "${name} links ${link}, which stands above it")
    endif()
  endforeach()
  belfry_objects(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  set_property(GLOBAL APPEND PROPERTY BELFRY_LIBRARIES ${name})
endfunction()

# belfry_objects(NAME SOURCES... LINK TARGETS...): object files for a shared library, or for a test that takes them apart.
function(belfry_objects name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_library(${name} OBJECT ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  belfry_compile_options(${name})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_LINK})
endfunction()

# belfry_program(NAME SOURCES... LINK TARGETS...): an executable in ${CMAKE_BINARY_DIR}/bin, linked with libbelfry.
function(belfry_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  belfry_compile_options(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LINK} belfry)
endfunction()

# Exports the symbols of namespace belfry and the entry points of modules, and no others: what libraries that are
# compiled into ours define stays inside.
function(belfry_export_symbols name)
  set(script ${PROJECT_SOURCE_DIR}/framework/cmake/exports.map)
  target_link_options(${name} PRIVATE -Wl,--version-script=${script} -Wl,-Bsymbolic-functions)
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${script})
endfunction()

# Makes programs that link the static library `name` take the check of the processor from it
# (framework/base/machine/check_processor.cc). Nothing refers to that, so a linker would leave it in the archive.
function(belfry_keep_processor_check name)
  if(BELFRY_LEVEL GREATER 1)
    target_link_options(${name} INTERFACE LINKER:--undefined=belfry_processor_level)
  endif()
endfunction()

# The options that every target of ours is compiled with. PRIVATE: a program that links Belfry keeps its own flags.
# -Wsubobject-linkage takes files that are compiled as one for headers.
function(belfry_compile_options name)
  target_compile_features(${name} PUBLIC cxx_std_20)
  # Nothing replaces a function of ours at load time, so calls within libbelfry are direct.
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers>"
                         "$<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>"
                         "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized;-Wno-subobject-linkage>"
                         "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--expt-relaxed-constexpr;-Xcompiler=-Wall>")
  # Paths in messages and in __FILE__ are those of the source tree, wherever it lies.
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>")
  if(BELFRY_WERROR)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
  if(BELFRY_MARCH)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-march=${BELFRY_MARCH}>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # A `#pragma omp simd` that -O1 does not vectorise is no fault.
    target_compile_options(${name} PRIVATE -Wthread-safety -Wno-pass-failed)
  endif()
  if(BELFRY_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${BELFRY_SANITIZE} -fno-sanitize-recover=all
                           -fno-omit-frame-pointer -g1)
    target_link_options(${name} PUBLIC -fsanitize=${BELFRY_SANITIZE})
  endif()
endfunction()

# belfry_unite(RESULT FILES...): files that include a few of FILES each, for nvcc, which takes 14 s to read the headers of
# one. Names in their unnamed namespaces must differ.
function(belfry_unite result)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(united)
  set(rest ${ARGN})
  while(rest)
    list(LENGTH united number)
    list(SUBLIST rest 0 4 files)
    list(REMOVE_ITEM rest ${files})
    list(TRANSFORM files REPLACE "(.+)" "#include \"${folder}/\\1\"\n")
    set(file ${CMAKE_CURRENT_BINARY_DIR}/united_${number}.cu)
    string(CONCAT text ${files})
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND united ${file})
  endwhile()
  set(${result} ${united} PARENT_SCOPE)
endfunction()
