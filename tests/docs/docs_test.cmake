# cmake -D root=DIR -P docs_test.cmake
set(breaches "")

file(READ ${root}/README.md readme)
file(READ ${root}/examples/first_program.cc program)
string(FIND "${readme}" "```cpp\n${program}```\n" at)
if(at EQUAL -1)
  list(APPEND breaches "README.md does not show examples/first_program.cc as it is")
endif()

file(GLOB pages ${root}/README.md ${root}/docs/*.md ${root}/examples/*.md ${root}/benchmarks/peers/*.md)
foreach(page IN LISTS pages)
  file(READ ${page} text)
  get_filename_component(folder ${page} DIRECTORY)
  file(RELATIVE_PATH name ${root} ${page})
  string(REPLACE ";" " " text "${text}")

  # Paths from the root, in code spans: `framework/graph/scope.h`, `tests/install`. x.h and x.cc stand for any file.
  string(REGEX MATCHALL "`(framework|ops|optim|models|trainers|tests|benchmarks|examples|docs)/[A-Za-z0-9_/.]*`" paths "${text}")
  list(REMOVE_DUPLICATES paths)
  foreach(path IN LISTS paths)
    string(REGEX REPLACE "`" "" path "${path}")
    if(NOT path MATCHES "/x\\.[a-z]+$" AND NOT EXISTS ${root}/${path})
      list(APPEND breaches "${name} names ${path}, which does not exist")
    endif()
  endforeach()

  # Links to other files: [text](docs/plan.md#reading-it).
  string(REGEX MATCHALL "\\]\\([^):]+\\)" links "${text}")
  list(REMOVE_DUPLICATES links)
  foreach(link IN LISTS links)
    string(REGEX REPLACE "\\]\\(([^)#]*).*\\)" "\\1" link "${link}")
    if(link AND NOT EXISTS ${folder}/${link})
      list(APPEND breaches "${name} links to ${link}, which does not exist")
    endif()
  endforeach()
endforeach()

if(breaches)
  list(JOIN breaches "\n  " breaches)
  message(FATAL_ERROR "Pages and tree differ:\n  ${breaches}")
endif()
