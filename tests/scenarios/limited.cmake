# Runs PROGRAM with FLAGS under limits that `ulimit -${LIMIT}` sets to each of VALUES. Each run must end with status 0, or
# with status 1 and RESOURCE_EXHAUSTED, or the limit must be too low to load the program (127); at least one must end with
# the error, and the last must succeed. FOLDER is removed before each.
set(errors_seen 0)
foreach(value IN LISTS VALUES)
  file(REMOVE_RECURSE ${FOLDER})
  execute_process(COMMAND sh -c "ulimit -${LIMIT} ${value} && ulimit -c 0 && exec \"$0\" \"$@\"" ${PROGRAM} ${FLAGS}
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE errors TIMEOUT 60)
  if(status EQUAL 1 AND errors MATCHES "RESOURCE_EXHAUSTED: .*(raise|lower|free)")
    math(EXPR errors_seen "${errors_seen} + 1")
  elseif(NOT status EQUAL 0 AND NOT (status EQUAL 127 AND errors MATCHES "shared librar"))
    message(FATAL_ERROR "With ulimit -${LIMIT} ${value}, ${PROGRAM} ended with ${status}:\n${errors}")
  endif()
endforeach()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "With ulimit -${LIMIT} ${value}, ${PROGRAM} ended with ${status}:\n${errors}")
endif()
if(errors_seen EQUAL 0)
  message(FATAL_ERROR "None of ${VALUES} was too low")
endif()
