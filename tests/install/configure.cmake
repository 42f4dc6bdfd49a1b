# configure(STATUS OUTPUT OPTIONS...): configures ${work_dir}/project anew by ${generator} and ${cxx}. Sets STATUS to 0 or 1, and
# OUTPUT to everything that CMake says, which must be neither an error nor a warning if it succeeds.
function(configure status_variable output_variable)
  file(REMOVE_RECURSE ${work_dir}/build)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${work_dir}/project -B ${work_dir}/build -G ${generator} -D CMAKE_CXX_COMPILER=${cxx} ${ARGN}
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(status)
    set(status 1)
  elseif(output MATCHES "CMake (Error|Warning)")
    message(FATAL_ERROR "configuring says\n${output}")
  endif()
  set(${status_variable} ${status} PARENT_SCOPE)
  set(${output_variable} "${output}" PARENT_SCOPE)
endfunction()
