# cmake -D programs=FILES -D level=N -P processor_test.cmake: programs with a libbelfry for level N of x86-64 start on
# processors that have it, and end with one line of error on others.
cmake_policy(VERSION 3.25)
find_program(qemu qemu-x86_64)
if(NOT qemu)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "Skipped 1: qemu-x86_64 is not installed (Debian's qemu-user)")
  return()
endif()

# expect(PROGRAM LEVEL COMMAND...): COMMAND, which runs PROGRAM on a processor of LEVEL, starts or refuses to.
function(expect program processor_level)
  execute_process(COMMAND ${ARGN} ${program} --version OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
  # The part of a processor that this QEMU cannot emulate, and the test does not need.
  string(REGEX REPLACE "qemu-x86_64: warning: [^\n]*\n" "" errors "${errors}")
  set(result "${ARGN} ${program} --version: status ${status}, output '${output}', errors '${errors}'")
  if(processor_level LESS level)
    set(start "this libbelfry needs a processor of level x86-64-v${level} ")
    set(end "this machine's is of level ${processor_level}\\. ")
    if(NOT status EQUAL 1 OR NOT output STREQUAL "" OR NOT errors MATCHES "^belfry: ${start}[^\n]*${end}[^\n]*\n$")
      message(FATAL_ERROR "${result}; expected a line of error that says level ${processor_level}")
    endif()
  elseif(NOT status EQUAL 0 OR NOT output MATCHES "Belfry" OR NOT errors STREQUAL "")
    message(FATAL_ERROR "${result}; expected the version")
  endif()
endfunction()

foreach(program IN LISTS programs)
  expect(${program} ${level})
  expect(${program} 1 ${qemu} -cpu core2duo)
  expect(${program} 2 ${qemu} -cpu Nehalem)
  expect(${program} 3 ${qemu} -cpu Haswell)
  # A virtual machine may hide any of a processor's instructions.
  foreach(hidden pni ssse3 cx16 sse4.1 sse4.2 popcnt lahf-lm)
    expect(${program} 1 ${qemu} -cpu Haswell,-${hidden})
  endforeach()
  # Not BMI1 alone: the AVX2 functions of glibc 2.36 use it unasked.
  foreach(hidden fma movbe xsave avx f16c avx2,-bmi1 bmi2 abm)
    expect(${program} 2 ${qemu} -cpu Haswell,-${hidden})
  endforeach()
endforeach()
