# Runs PROGRAM with FLAGS. Fails unless it ends with STATUS and its output matches PATTERN: its standard output or, if
# STATUS is not 0, its standard error.
execute_process(COMMAND ${PROGRAM} ${FLAGS} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT status EQUAL STATUS)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}:\n${output}${errors}")
endif()
if(STATUS EQUAL 0)
  set(text "${output}")
else()
  set(text "${errors}")
endif()
if(NOT text MATCHES "${PATTERN}")
  message(FATAL_ERROR "The output of ${PROGRAM} does not match '${PATTERN}':\n${output}${errors}")
endif()
