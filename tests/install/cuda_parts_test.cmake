# cmake -D source_dir=DIR -D build_dir=DIR -D cxx=COMPILER -D generator=NAME -P cuda_parts_test.cmake: configures a project with
# framework/cmake/cuda.cmake, for CUDA installations of which parts are missing. They are made up of empty files.
cmake_policy(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/configure.cmake)
set(work_dir ${build_dir}/cuda_parts_test)
set(cuda ${work_dir}/cuda)
file(REMOVE_RECURSE ${work_dir})
file(WRITE ${work_dir}/project/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(Parts CXX)
set(BUILD_SHARED_LIBS ON)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
include(${source_dir}/framework/cmake/cuda.cmake)
message(STATUS \"BELFRY_HAS_CUDA is \${BELFRY_HAS_CUDA}\")
")

# expect(STATUS PATTERN OPTIONS...): configuring ends with STATUS, 0 or 1, and prints PATTERN.
function(expect expected pattern)
  configure(status output -D CUDAToolkit_ROOT=${cuda} -D CMAKE_LIBRARY_PATH=${cuda}/lib64 ${ARGN})
  # CMake breaks long lines of errors.
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(NOT status EQUAL expected OR NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "expected status ${expected} and '${pattern}', but got ${status} and\n${output}")
  endif()
endfunction()

# put(FILE TEXT)
function(put name text)
  file(WRITE ${cuda}/${name} "${text}")
endfunction()

set(nvcc_that_fails "#!/bin/sh
case $* in
*-v*) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;
*) exit 1 ;;
esac
")
put(bin/nvcc "${nvcc_that_fails}")
file(CHMOD ${cuda}/bin/nvcc PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
put(include/cuda_runtime.h "")
put(lib64/libcudart.so "")
# CMake 3.31 looks for it where there is a libcudart.
put(lib64/librt.so "")
set(unusable "an nvcc that compiles: [^ ]*bin/nvcc does not \\(cuda-toolkit-13-0\\)")
set(cudnn "cuDNN 9.8 or later \\(libcudnn9-dev-cuda-13\\)")
set(nccl "nccl.h \\(libnccl-dev\\)")
expect(0 "Without CUDA. missing: ${unusable}, cuBLAS \\(libcublas-dev-13-0\\), ${cudnn}, ${nccl} .*BELFRY_HAS_CUDA is OFF")
expect(1 "BELFRY_CUDA=ON, but these are missing: .*${cudnn}, ${nccl}" -D BELFRY_CUDA=ON)

string(REPLACE "exit 1" "touch nvcc_works.o" nvcc_that_works "${nvcc_that_fails}")
put(bin/nvcc "${nvcc_that_works}")
put(lib64/libcublasLt.so "")
put(lib64/libcublas.so "")
expect(0 "Without CUDA. missing: ${cudnn}, ${nccl} .*BELFRY_HAS_CUDA is OFF")
put(include/cudnn.h "")
put(lib64/libcudnn.so "")
expect(0 "missing: ${cudnn}, ${nccl} ")
put(include/cudnn_version.h "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 7\n")
expect(0 "missing: ${cudnn}, ${nccl} ")
put(include/cudnn_version.h "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n")
expect(0 "missing: ${nccl} ")

file(REMOVE ${cuda}/bin/nvcc)
expect(0 "missing: nvcc 12 or later \\(cuda-toolkit\\)")
file(REMOVE_RECURSE ${work_dir})
