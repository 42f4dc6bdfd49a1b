# Runs PROGRAM with FLAGS; fails unless it ends with status 0 and its standard output matches PATTERN.
execute_process(COMMAND ${PROGRAM} ${FLAGS} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}:\n${output}${errors}")
endif()
if(NOT output MATCHES "${PATTERN}")
  message(FATAL_ERROR "The output of ${PROGRAM} does not match '${PATTERN}':\n${output}${errors}")
endif()
