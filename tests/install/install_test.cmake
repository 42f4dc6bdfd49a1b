# cmake -D build_dir=DIR -D cxx=COMPILER -D generator=GENERATOR -P install_test.cmake
set(work_dir ${build_dir}/install_test)
set(prefix ${work_dir}/prefix)
file(REMOVE_RECURSE ${work_dir})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${build_dir} --prefix ${prefix})
# build(FOLDER NAME) builds the project in FOLDER against the installed copy, with the warnings that users turn on as errors.
function(build folder name)
  run(${CMAKE_COMMAND} -S ${folder} -B ${work_dir}/${name} -G ${generator}
      -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${cxx} -D CMAKE_BUILD_TYPE=Release
      "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wshadow -Werror" -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
      -D CMAKE_PROJECT_INCLUDE=${CMAKE_CURRENT_LIST_DIR}/share_header.cmake)
  run(${CMAKE_COMMAND} --build ${work_dir}/${name})
endfunction()

# prints(REGEX COMPLAINT EXAMPLE ARGUMENTS...): what the example prints matches; otherwise it does as the complaint says.
function(prints regex complaint example)
  execute_process(COMMAND ${work_dir}/examples/${example} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  if(NOT text MATCHES "${regex}")
    message(FATAL_ERROR "${example} ${complaint}:\n${text}")
  endif()
endfunction()

build(${CMAKE_CURRENT_LIST_DIR}/consumer consumer)
run(${work_dir}/consumer/consumer)
build(${prefix}/share/doc/belfry/examples examples)
run(${work_dir}/examples/train_waves cpu:2)
prints("inside the ring: \\(1\\.4, 0\\) (100|9[0-9])%, \\(0\\.1, 0\\.2\\) [0-9]%\n$" "predicts something else"
  first_program)
run(${work_dir}/examples/matpow cpu:2 100)
run(${work_dir}/examples/towers_by_hand cpu:2)
run(${work_dir}/examples/several_tasks ${work_dir}/run)
prints("the learning rate is now 0\\.01\n.*Stopped after step [0-9]+: the learning rate is small\\.\n" "does not halve its rate"
  halve_rate)
prints("Variables of the trunk: 8 as they were, 0 others" "changes what it froze"
  transfer ${work_dir}/rings)
prints("2[0-9]% of the steps in batches are padding\n.*right about (100|9[0-9])\\.[0-9]% of new texts\n$" "does not learn"
  sequence_classifier)
run(${work_dir}/examples/vae ${work_dir}/samples.png)
file(READ ${work_dir}/samples.png signature LIMIT 8 HEX)
if(NOT signature STREQUAL "89504e470d0a1a0a")
  message(FATAL_ERROR "vae writes no PNG")
endif()
execute_process(COMMAND ${work_dir}/examples/gan OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
# An eighth of the points is 125, of which 1 % are farther away in the data, too.
string(REGEX MATCHALL "corner [0-7]: ([5-9][0-9]|1[0-9][0-9]|2[0-4][0-9]) of 1000 points are near\n" corners "${text}")
list(LENGTH corners count)
if(NOT count EQUAL 8)
  message(FATAL_ERROR "gan does not draw points at all corners:\n${text}")
endif()
prints("pairs of shapes never seen: (9[3-9][0-9]|1000) of 1000 told right\n" "does not tell pairs apart"
  siamese)
prints("distance (1\\.9|2\\.[01])[0-9], mean length of the gradient (0\\.9|1\\.0)[0-9]\n$" "finds another distance than 2"
  gradient_penalty)
prints("largest error: 0\\.00[0-9]+\n$" "does not solve its equation"
  oscillator)
prints("cell 0: go right, which is worth 0\\.5[0-9]\n.*cell 6: go right, .*to the right is 0\\.0[0-4][0-9]\\.\n$" "does not learn"
  target_network)
run(${prefix}/bin/cifar10 --steps=1 --batch_size=8 --model=resnet20 --export=${work_dir}/model.safetensors)
prints("input +image: [^\n]*,3\\]\noutput +logits: [^\n]*\\[1,10\\] values: " "prints something else"
  run_model ${work_dir}/model.safetensors)
execute_process(COMMAND ldd ${work_dir}/examples/serve OUTPUT_VARIABLE libraries COMMAND_ERROR_IS_FATAL ANY)
if(NOT libraries MATCHES "libbelfry_inference\\.so" OR libraries MATCHES "lib(belfry\\.so|protobuf|png|jpeg|mpi|cuda)[^\n]*")
  message(FATAL_ERROR "serve links:\n${libraries}")
endif()
# One image of zeros, 32 x 32 x 3 floats.
run(sh -c "head -c 12288 /dev/zero | ${work_dir}/examples/serve ${work_dir}/model.safetensors > ${work_dir}/logits")
file(SIZE ${work_dir}/logits bytes)
if(NOT bytes EQUAL 40)
  message(FATAL_ERROR "serve wrote ${bytes} bytes for ten logits")
endif()
find_program(python3 python3)
if(python3)
  file(GLOB library ${prefix}/lib*/libbelfry_inference.so ${prefix}/lib*/*/libbelfry_inference.so)
  execute_process(COMMAND ${python3} -B ${prefix}/share/doc/belfry/examples/run_model.py
    ${work_dir}/model.safetensors ${library} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  if(NOT text MATCHES "input +image: [^\n]*, 3\\]\noutput +logits: \\[1, 10\\] \\[-?[0-9.e-]+, [^\n]*\\]\n$")
    message(FATAL_ERROR "run_model.py prints something else:\n${text}")
  endif()
endif()
file(REMOVE_RECURSE ${work_dir})
