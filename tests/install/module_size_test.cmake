# cmake -D module=FILE -D most=MB -P module_size_test.cmake: the module has at most `most` million bytes.
cmake_policy(VERSION 3.25)
file(SIZE ${module} bytes)
math(EXPR limit "${most} * 1000000")
if(bytes GREATER limit)
  message(FATAL_ERROR "${module} has ${bytes} bytes, more than ${limit}: fewer instances of kernels, or fewer architectures")
endif()
