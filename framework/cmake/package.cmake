# Debian packages, by CPack: `./dev package`. One for each component of install.cmake.
if(NOT BUILD_SHARED_LIBS)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME belfry)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Belfry developers <belfry@localhost>")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SOURCE belfry)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_THREADS 0)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# Packages that ours need: those of the libraries that they link, and each other in the same version.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

# belfry_package(COMPONENT NAME SUMMARY TEXT [DEPENDS COMPONENTS...])
set(CPACK_COMPONENTS_ALL)
function(belfry_package component name summary text)
  cmake_parse_arguments(PARSE_ARGV 4 arg "" "" "DEPENDS")
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DEPENDS ${arg_DEPENDS} PARENT_SCOPE)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} RENAME copyright COMPONENT ${component})
endfunction()

set(about "Belfry trains one model on several devices: each holds a replica, and every
step splits the batch and averages the gradients.")
get_target_property(soversion belfry SOVERSION)
set(library libbelfry${soversion})
belfry_package(library ${library} "data-parallel training on several devices (library)" "${about}")
# For dpkg-shlibdeps of packages with programs of others. CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS would look at every header.
file(WRITE ${PROJECT_BINARY_DIR}/shlibs "libbelfry ${soversion} ${library} (= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/shlibs)
belfry_package(inference libbelfry-inference${soversion} "running models that Belfry has saved (library)"
  "${about}\n\nThis library runs the models that it saves, from C and C++, without training.")
set(CPACK_DEBIAN_INFERENCE_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/inference/shlibs)
file(WRITE ${PROJECT_BINARY_DIR}/inference/shlibs
  "libbelfry_inference ${soversion} libbelfry-inference${soversion} (= ${PROJECT_VERSION})\n")
belfry_package(development libbelfry-dev "data-parallel training on several devices (development)"
  "${about}\n\nHeaders, the CMake package Belfry, and files for pkg-config." DEPENDS library inference)
# What the headers include.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS libabsl-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
belfry_package(programs belfry "data-parallel training on several devices (programs)"
  "${about}\n\ncifar10 trains image classifiers, language_model transformers, tabular models\nof CSV files; plot_run draws the course of a run, and audit checks its files." DEPENDS library)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS "${library}-cuda, ${library}-openmpi | ${library}-mpich")
if("openmpi" IN_LIST BELFRY_MPI_LIBRARIES)
  belfry_package(openmpi ${library}-openmpi "data-parallel training with Open MPI (module)"
    "${about}\n\nWith this module, mpirun and srun start programs on several machines." DEPENDS library)
  set(CPACK_DEBIAN_OPENMPI_PACKAGE_RECOMMENDS openmpi-bin)
endif()
if("mpich" IN_LIST BELFRY_MPI_LIBRARIES)
  belfry_package(mpich ${library}-mpich "data-parallel training with MPICH (module)"
    "${about}\n\nWith this module, mpirun and srun start programs on several machines." DEPENDS library)
  set(CPACK_DEBIAN_MPICH_PACKAGE_RECOMMENDS mpich)
endif()
if(BELFRY_HAS_CUDA)
  belfry_package(cuda ${library}-cuda "data-parallel training on NVIDIA GPUs (module)"
    "${about}\n\nWith this module, programs use GPUs. It needs NVIDIA's driver, cuBLAS, cuDNN,\nNVRTC and NCCL, which come from NVIDIA's packages." DEPENDS library)
  # dpkg-shlibdeps would demand NVIDIA's packages where they are installed, and fail where they are not. All other
  # libraries of the module are those of libbelfry (tests/install/package_test.cmake).
  set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
  set(version ${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR})
  set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS
    "libcublas-${version}, cuda-nvrtc-${version}, libcudnn9-cuda-${CUDAToolkit_VERSION_MAJOR}, libnccl2")
endif()
include(CPack)
