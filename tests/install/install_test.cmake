# cmake -D build_dir=DIR -D cxx=COMPILER -D generator=GENERATOR -P install_test.cmake
set(work_dir ${build_dir}/install_test)
set(prefix ${work_dir}/prefix)
file(REMOVE_RECURSE ${work_dir})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${build_dir} --prefix ${prefix})
# build(FOLDER NAME) builds the project in FOLDER against the installed copy.
function(build folder name)
  run(${CMAKE_COMMAND} -S ${folder} -B ${work_dir}/${name} -G ${generator}
      -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${cxx} -D CMAKE_BUILD_TYPE=Release
      -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
  run(${CMAKE_COMMAND} --build ${work_dir}/${name})
endfunction()

build(${CMAKE_CURRENT_LIST_DIR}/consumer consumer)
run(${work_dir}/consumer/consumer)
build(${CMAKE_CURRENT_LIST_DIR}/../../examples examples)
run(${work_dir}/examples/train_waves cpu:2)
execute_process(COMMAND ${work_dir}/examples/first_program OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
if(NOT text MATCHES "inside the ring: \\(1\\.4, 0\\) (100|9[0-9])%, \\(0\\.1, 0\\.2\\) [0-9]%\n$")
  message(FATAL_ERROR "first_program predicts something else:\n${text}")
endif()
run(${work_dir}/examples/several_tasks ${work_dir}/run)
execute_process(COMMAND ${work_dir}/examples/halve_rate OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
if(NOT text MATCHES "the learning rate is now 0\\.01\n.*Stopped after step [0-9]+: the learning rate is small\\.\n")
  message(FATAL_ERROR "halve_rate does not halve its rate:\n${text}")
endif()
execute_process(COMMAND ${work_dir}/examples/transfer ${work_dir}/rings OUTPUT_VARIABLE text
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT text MATCHES "Variables of the trunk: 8 as they were, 0 others")
  message(FATAL_ERROR "transfer changes what it froze:\n${text}")
endif()
run(${work_dir}/examples/vae ${work_dir}/samples.png)
file(READ ${work_dir}/samples.png signature LIMIT 8 HEX)
if(NOT signature STREQUAL "89504e470d0a1a0a")
  message(FATAL_ERROR "vae writes no PNG")
endif()
file(REMOVE_RECURSE ${work_dir})
