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
  # libbelfry_inference leaves out what it does not call.
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections;-fdata-sections>")
  # Larger units compile sooner; those of what runs in steps stay small, for inlining there changes with the unit.
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
  if(folder MATCHES "^framework/(base|collective|device|runtime)")
    belfry_unite_sources(${name} 8 3)
  else()
    belfry_unite_sources(${name} 24 8)
  endif()
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_LINK})
endfunction()

# belfry_program(NAME SOURCES... LINK TARGETS...): an executable in ${CMAKE_BINARY_DIR}/bin, linked with libbelfry.
function(belfry_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  belfry_compile_options(${name})
  belfry_unite_sources(${name} 24 8)
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
  # Half the size. Drivers before those of CUDA 12.4, with which programs of CUDA 12 may run, cannot read it.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  endif()
  # Paths in messages and in __FILE__ are those of the source tree, wherever it lies.
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>")
  if(BELFRY_WERROR)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  endif()
  if(BELFRY_MARCH)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-march=${BELFRY_MARCH}>)
  endif()
  # g++ 12.2 copies the constants {1, 1, 0, 0} of 64 bits as {1, 1, 1, 1} with AVX-512: it repeats the first of them if all
  # before the zeros are equal, up to the width of one move. Moves of 16 bytes hold too few for that.
  if(BELFRY_LEVEL EQUAL 4 AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-mmove-max=128;-mstore-max=128>")
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
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
  # Checks of each access take long to compile. AddressSanitizer finds what these checks of
  # UndefinedBehaviorSanitizer find, but for misaligned addresses, which are looked for where bytes are parsed. Fuzzers are
  # guided by the branches of parsers, so there alone are they counted.
  set(parses_no_bytes "^(ops|tests|framework/(collective|compiler|device))")
  if(BELFRY_SANITIZE MATCHES undefined)
    target_compile_options(${name} PRIVATE -fno-sanitize=null,object-size,vptr)
    if(folder MATCHES "${parses_no_bytes}")
      target_compile_options(${name} PRIVATE -fno-sanitize=alignment)
    endif()
  endif()
  if(BELFRY_FUZZ AND NOT folder MATCHES "${parses_no_bytes}")
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  # These folders compute next to nothing in a step, and -O3 takes a third longer than -O1 (g++ 12). -fexpensive-optimizations
  # fuses multiplications with additions, as the higher levels do, so that floats are rounded alike.
  set(programs "models|trainers/(callbacks|ledger|loop|prediction|program)|trainers$")
  if(folder MATCHES "^(framework/(compiler|graph)|${programs})")
    target_compile_options(${name} PRIVATE
      "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-O1;-fexpensive-optimizations>")
  endif()
  # Sanitizers' code takes long to optimise. Nearly all time of the tests is spent in the other folders.
  if(folder MATCHES "^(optim|tests/fake_gpu|${programs})")
    target_compile_options(${name} PRIVATE $<$<CONFIG:Sanitize>:-O0>)
  endif()
endfunction()

# belfry_unit_names(RESULT SIZE SMALL FILES...): for each of FILES the name of the unit that it is compiled in, with up to SIZE
# files of its folder, so that a new file changes units of its own folder only. Folders of fewer than SMALL files share units.
function(belfry_unit_names result size small)
  foreach(file IN LISTS ARGN)
    cmake_path(GET file PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "in_${folder}" folder)
    list(APPEND folders ${folder})
  endforeach()
  set(names)
  foreach(folder IN LISTS folders)
    set(files ${folders})
    list(FILTER files INCLUDE REGEX "^${folder}$")
    list(LENGTH files number)
    if(number LESS small)
      set(folder small_folders)
    endif()
    if(NOT DEFINED count_${folder})
      set(count_${folder} 0)
    endif()
    math(EXPR unit "${count_${folder}} / ${size}")
    math(EXPR count_${folder} "${count_${folder}} + 1")
    list(APPEND names ${folder}_${unit})
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# belfry_unite_sources(NAME SIZE SMALL): compiles the C++ files of target NAME by folder, several as one, in builds that unite
# sources: headers are read, and templates instantiated, once a unit.
function(belfry_unite_sources name size small)
  get_target_property(sources ${name} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  belfry_unit_names(units ${size} ${small} ${sources})
  foreach(source unit IN ZIP_LISTS sources units)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
  endforeach()
  set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# belfry_unite_cuda(RESULT NAME FILES...): files NAME_0.cu and so on that include eight of FILES each, for nvcc, which takes 14 s
# to read the headers of one. Names in their unnamed namespaces must differ.
function(belfry_unite_cuda result name)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(united)
  while(ARGN)
    list(SUBLIST ARGN 0 8 files)
    list(REMOVE_ITEM ARGN ${files})
    list(TRANSFORM files REPLACE "(.+)" "#include \"${folder}/\\1\"\n")
    string(JOIN "" text ${files})
    list(LENGTH united unit)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_${unit}.cu)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND united ${file})
  endwhile()
  set(${result} ${united} PARENT_SCOPE)
endfunction()
