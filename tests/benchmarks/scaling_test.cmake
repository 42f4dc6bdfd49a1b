# Runs the benchmark PROGRAM, scaling or prediction, in FOLDER as the test RUN asks, and checks what it prints and writes.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

# scaling(STATUS PATTERN FLAGS...): it must end with STATUS and print text that matches PATTERN.
function(scaling status pattern)
  execute_process(COMMAND ${PROGRAM} ${ARGN} WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL status OR NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "status ${result} instead of ${status}, or no '${pattern}' in:\n${output}")
  endif()
endfunction()

# page(PATTERN FILE): the file must match.
function(page pattern file)
  file(READ ${FOLDER}/${file} text)
  if(NOT text MATCHES "${pattern}")
    message(FATAL_ERROR "no '${pattern}' in ${file}")
  endif()
endfunction()

set(quick --rounds=2 --seconds=0.01 --trace_steps=1 --most=2 --batch_size=8)
set(number "[0-9.e+-]+")
set(spread "${number}( \\[${number} \\.\\. ${number}\\])?")
if(RUN STREQUAL Scaling)
  # Without --out into the current folder.
  scaling(0 "\nmlp, weak +2 +16 +${spread} +${spread} +${number} .*\nChart: \\./scaling\\.html\n" ${quick} --model=mlp,s5)
  page("\"label\":\"mlp, strong\".*\"label\":\"s5, apart\".*\"label\":\"ideal\"" scaling.html)
  page("^program,devices,batch,images/s,images/s_min,images/s_max,speed_up,speed_up_min,speed_up_max,efficiency,"
       scaling.csv)
elseif(RUN STREQUAL Prediction)
  scaling(0 "\n +64 .*an efficiency of 0.9 or more up to [0-9]+ process" --model=mlp --processes=64 --batch_size=8 --out=here)
  page("^processes,step_ms,images/s,efficiency,exposed_ms,bound_by,measured_ms,best_bucket_KiB,best_step_ms\n1,.*\n64,"
       here/prediction.csv)
  scaling(1 "--real needs --link=measured" --real=1)
  scaling(1 "--link: '40gbe' is unknown. expected 1gbe" --link=40gbe)
  scaling(1 "--processes=0 must be from 1" --processes=0)
elseif(RUN STREQUAL Scaling.Kind)
  scaling(1 "--kind=tpu is unknown. the kinds are cpu and gpu" --kind=tpu)
else()
  scaling(1 "--averager=nccl averages among GPUs. set --kind=gpu" ${quick} --model=s5 --averager=nccl)
  scaling(1 "--averager=mean is unknown" ${quick} --model=s5 --averager=mean)
endif()
