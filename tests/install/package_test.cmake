# cmake -D build_dir=DIR -D cxx=COMPILER -D version=X.Y.Z -P package_test.cmake: packs the build, and uses what the packages hold.
cmake_policy(VERSION 3.25)
foreach(tool dpkg-deb dpkg-shlibdeps file pkg-config)
  find_program(${tool} ${tool})
  if(NOT ${tool})
    execute_process(COMMAND ${CMAKE_COMMAND} -E echo "Skipped 1: ${tool} is not installed")
    return()
  endif()
endforeach()
set(work_dir ${build_dir}/package_test)
set(root ${work_dir}/root)
file(REMOVE_RECURSE ${work_dir})
file(MAKE_DIRECTORY ${root})
cmake_path(GET CMAKE_COMMAND PARENT_PATH tools)

# run(OUTPUT COMMAND...)
function(run result)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${status}\n${output}${errors}")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

function(expect text pattern what)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "${what}: expected '${pattern}' in\n${text}")
  endif()
endfunction()

# package(NAME DEPENDS FILES...): there is a package NAME whose Depends and list of files match these patterns. Unpacks it.
function(package name depends)
  file(GLOB deb ${work_dir}/${name}_${version}_*.deb)
  if(NOT deb)
    message(FATAL_ERROR "there is no package ${name}")
  endif()
  run(fields ${dpkg-deb} -f ${deb})
  expect("${fields}" "Version: ${version}\n" ${name})
  expect("${fields}" "Depends: [^\n]*${depends}" ${name})
  run(files ${dpkg-deb} -c ${deb})
  foreach(pattern ${ARGN} "./usr/share/doc/${name}/copyright\n")
    expect("${files}" "${pattern}" ${name})
  endforeach()
  run(ignored ${dpkg-deb} -x ${deb} ${root})
endfunction()

# needed(RESULT FILE): the libraries that FILE links.
function(needed result file)
  run(dynamic readelf -d ${file})
  string(REGEX MATCHALL "NEEDED[^[]*\\[[^]]*" entries "${dynamic}")
  list(TRANSFORM entries REPLACE ".*\\[" "")
  set(${result} ${entries} PARENT_SCOPE)
endfunction()

run(ignored ${tools}/cpack --config ${build_dir}/CPackConfig.cmake -B ${work_dir} -D CPACK_DEBIAN_COMPRESSION_TYPE=none)
file(GLOB built RELATIVE ${build_dir}/lib ${build_dir}/lib/libbelfry*.so*)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" soversion ${version})
set(library libbelfry${soversion})
set(same "${library} \\(= ${version}\\)")
file(GLOB deb_of_library ${work_dir}/${library}_*.deb)
package(${library} "libdnnl[0-9].*libprotobuf-lite" "/libbelfry\\.so\\.${version}\n" "/libbelfry\\.so\\.${soversion} -> ")
run(shlibs ${dpkg-deb} -I ${deb_of_library} shlibs)
expect("${shlibs}" "^libbelfry ${soversion} ${library} \\(= ${version}\\)\n$" "shlibs")
set(inference libbelfry-inference${soversion})
package(${inference} "libdnnl[0-9]" "/libbelfry_inference\\.so\\.${version}\n")
needed(of_inference ${root}/usr/lib/libbelfry_inference.so.${version})
if(of_inference MATCHES "lib(belfry|protobuf|png|jpeg|mpi|cuda)[^;]*")
  message(FATAL_ERROR "libbelfry_inference links ${CMAKE_MATCH_0}")
endif()
package(libbelfry-dev "${same}.*libabsl-dev" "/libbelfry\\.so -> " "/include/belfry/belfry\\.h\n"
  "/include/belfry/models/towers/replicate_towers\\.h\n" "/BelfryConfig\\.cmake\n" "/pkgconfig/belfry\\.pc\n"
  "/include/belfry/belfry_inference\\.hpp?\n" "/libbelfry_inference\\.so -> " "/pkgconfig/belfry_inference\\.pc\n")
package(belfry "${same}.*libstdc\\+\\+6" "/bin/cifar10\n" "/bin/plot_run\n" "/man1/cifar10\\.1\\.gz\n" "/man1/plot_run\\.1\\.gz\n")
foreach(mpi IN ITEMS openmpi mpich)
  if("libbelfry_mpi_${mpi}.so" IN_LIST built)
    package(${library}-${mpi} "${same}.*lib${mpi}[0-9]" "/libbelfry_mpi_${mpi}\\.so\n")
  endif()
endforeach()
if("libbelfry_cuda.so" IN_LIST built)
  # It installs where NVIDIA's packages are unknown. All libraries but theirs come with libbelfry.
  package(${library}-cuda "${same}\n" "/libbelfry_cuda\\.so\n")
  needed(of_module ${root}/usr/lib/libbelfry_cuda.so)
  needed(of_library ${root}/usr/lib/libbelfry.so.${version})
  list(REMOVE_ITEM of_module ${of_library} libbelfry.so.${soversion})
  list(FILTER of_module EXCLUDE REGEX "^(libnccl|libcublas|libcublasLt|libcudnn|libcudart|libnvrtc|ld-linux-.*)\\.so")
  if(of_module)
    message(FATAL_ERROR "the package of the CUDA module does not depend on those of ${of_module}")
  endif()
endif()

# The unpacked files work where they lie.
run(text ${root}/usr/bin/list_devices --version)
expect("${text}" "Belfry ${version}" "list_devices --version")
run(page gzip -dc ${root}/usr/share/man/man1/list_devices.1.gz)
expect("${page}" "^\\.TH LIST\\\\?_DEVICES 1 .*\\.SH NAME\nlist_devices \\\\- lists .*\\.TP\n[^\n]*devices=cpu:1[^\n]*\nDevices to open"
  "the man page of list_devices")
set(ENV{PKG_CONFIG_PATH} ${root}/usr/lib/pkgconfig)
run(flags ${pkg-config} --cflags --libs belfry)
separate_arguments(flags UNIX_COMMAND "${flags}")
file(WRITE ${work_dir}/devices.cc [[
#include <cstdio>

#include "framework/device/device_set.h"

int main() {
  const auto devices = belfry::DeviceSet::Open("cpu:2");
  if (!devices.ok()) return 1;
  std::printf("%d devices\n", devices->size());
}
]])
run(ignored ${cxx} -std=c++20 ${work_dir}/devices.cc -o ${work_dir}/devices ${flags} -Wl,-rpath,${root}/usr/lib)
run(text ${work_dir}/devices)
expect("${text}" "^2 devices\n$" "a program built with pkg-config")
file(REMOVE_RECURSE ${work_dir})
