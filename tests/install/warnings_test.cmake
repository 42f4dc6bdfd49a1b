# cmake -D source_dir=DIR -D cxx=COMPILER -P warnings_test.cmake
# Compiles every public header alone, and every example, with the warnings that users turn on as errors. Headers are those
# that install.cmake installs.
set(flags -std=c++20 -fsyntax-only -Wall -Wextra -Wshadow -Werror -I ${source_dir} -x c++)
file(GLOB_RECURSE headers RELATIVE ${source_dir} ${source_dir}/framework/*.h ${source_dir}/ops/*.h
     ${source_dir}/optim/*.h ${source_dir}/models/*.h ${source_dir}/trainers/loop/*.h)
list(FILTER headers EXCLUDE REGEX
     "_impl\\.h$|/cuda/|/mpi/|^ops/(onednn|cudnn|gpu)/|/half\\.h$|gpu_reduce\\.h$|gpu_module\\.h$")
list(APPEND headers trainers/belfry.h)
set(failed)
foreach(header IN LISTS headers)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "#include \"${header}\"" COMMAND ${cxx} ${flags} -
                  RESULTS_VARIABLE results ERROR_VARIABLE errors)
  list(GET results 1 result)
  if(NOT result EQUAL 0)
    string(APPEND failed "${header}:\n${errors}")
  endif()
endforeach()
# As an installed copy, where belfry.h is at the top.
set(include ${source_dir}/trainers)
file(GLOB examples ${source_dir}/examples/*.cc)
foreach(example IN LISTS examples)
  execute_process(COMMAND ${cxx} ${flags} -I ${include} ${example} RESULT_VARIABLE result ERROR_VARIABLE errors)
  if(NOT result EQUAL 0)
    string(APPEND failed "${example}:\n${errors}")
  endif()
endforeach()
list(LENGTH headers count)
if(count LESS 150 OR NOT examples)
  message(FATAL_ERROR "Only ${count} headers were found")
endif()
if(failed)
  message(FATAL_ERROR "${failed}")
endif()
