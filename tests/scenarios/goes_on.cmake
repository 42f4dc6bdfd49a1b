# Runs PROGRAM with FLAGS for 300 steps, then for 600 in the same folder, and for 600 at once: the last lines that the
# second and the third run print must be equal.
file(REMOVE_RECURSE ${FOLDER})
function(run steps directory last)
  execute_process(COMMAND ${PROGRAM} ${FLAGS} --steps=${steps} --train_dir=${directory} RESULT_VARIABLE status
                  OUTPUT_VARIABLE output ERROR_VARIABLE errors OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} ended with ${status}:\n${output}${errors}")
  endif()
  string(REGEX MATCH "[^\n]*$" line "${output}")
  set(${last} "${line}" PARENT_SCOPE)
endfunction()
run(300 ${FOLDER}/parts first)
run(600 ${FOLDER}/parts parts)
run(600 ${FOLDER}/whole whole)
if(NOT parts STREQUAL whole OR parts STREQUAL first)
  message(FATAL_ERROR "after 300 steps: ${first}\nafter 300 more: ${parts}\nafter 600: ${whole}")
endif()
