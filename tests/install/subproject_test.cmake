# cmake -D build_dir=DIR -D source_dir=DIR -D cxx=COMPILER -D generator=GENERATOR -P subproject_test.cmake
set(work_dir ${build_dir}/subproject_test)
file(REMOVE_RECURSE ${work_dir})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/subproject -B ${work_dir} -G ${generator}
                        -D CMAKE_CXX_COMPILER=${cxx} -D CMAKE_UNITY_BUILD=ON -D belfry=${source_dir} -D BELFRY_CUDA=OFF
                        -D BELFRY_MPI=OFF
                COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work_dir} --target consumer COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${work_dir})
