# Trains with two towers and limits of time while the library PRELOAD moves the wall clock. The run must end well, and the
# times in its metrics must be possible.
file(REMOVE_RECURSE ${FOLDER})
execute_process(COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=${PRELOAD} ${PROGRAM} --devices=cpu:2 --threads_per_device=1
                        --batch_size=8 --steps=40 --step_timeout=30 --trace=10-12 --train_dir=${FOLDER}
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}:\n${output}${errors}")
endif()
file(READ ${FOLDER}/metrics.jsonl metrics)
string(REGEX MATCHALL "(seconds[a-z_]*|[a-z_]*per_second)\":[^,}]*" times "${metrics}")
if(NOT metrics MATCHES "seconds_step" OR NOT metrics MATCHES "per_second")
  message(FATAL_ERROR "no times in ${metrics}")
endif()
foreach(time IN LISTS times)
  string(REGEX REPLACE ".*:" "" value "${time}")
  # An hour, or the rate of an hour's steps.
  if(value LESS 0 OR (time MATCHES "^seconds" AND value GREATER 600) OR (time MATCHES "per_second" AND value LESS 0.1))
    message(FATAL_ERROR "${time} in\n${metrics}")
  endif()
endforeach()
