# The Python package, as it stands in the build tree, by pytest.
if(NOT TARGET py_store OR NOT TARGET mc-master)
  return()
endif()
execute_process(COMMAND "${MC_PYTHON_OF_PACKAGE}" -c "import pytest"
  RESULT_VARIABLE status ERROR_QUIET)
if(NOT status EQUAL 0)
  message(WARNING "no pytest for ${MC_PYTHON_OF_PACKAGE}: tests of the Python "
    "package are left out")
  return()
endif()

# What Python loads is built with a sanitizer, Python is not; what it never frees
# is its own.
set(preload)
if(MC_SANITIZE MATCHES "address")
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libasan.so
    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(preload ";LD_PRELOAD=${runtime};ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0;PYTHONMALLOC=malloc;MC_SANITIZED=1")
endif()

# test_python(NAME ROOM...): python/tests/test_ROOM.py in one process, ctest name
# python.NAME.
function(test_python name)
  set(paths)
  foreach(room ${ARGN})
    list(APPEND paths "${PROJECT_SOURCE_DIR}/python/tests/test_${room}.py")
  endforeach()
  add_test(NAME python.${name} COMMAND "${MC_PYTHON_OF_PACKAGE}" -m pytest -q
    -p no:cacheprovider ${paths})
  set(timeout 120)
  if(MC_SANITIZE)
    set(timeout 600)
  endif()
  set_tests_properties(python.${name} PROPERTIES TIMEOUT ${timeout}
    ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python;MC_MASTER=$<TARGET_FILE:mc-master>;MC_STORE=$<TARGET_FILE:mc-store>;MC_EVENTS=$<TARGET_FILE:mc-events>;MC_SOURCE=${PROJECT_SOURCE_DIR};PYTHONDONTWRITEBYTECODE=1${preload}")
endfunction()

# Those that import torch, where there is one, share what that takes.
set(with_torch consumers document structured tensors)
test_python(torch ${with_torch})
file(GLOB rooms CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/tests/test_*.py")
foreach(path ${rooms})
  get_filename_component(room "${path}" NAME_WE)
  string(REGEX REPLACE "^test_" "" room "${room}")
  if(NOT room IN_LIST with_torch)
    test_python(${room} ${room})
  endif()
endforeach()

# The wheel, from this source alone, in an environment of its own; what is built
# with a sanitizer cannot be loaded so. The options are those of this build, so
# that a compiler cache has met most of it.
if(MC_SANITIZE)
  return()
endif()
execute_process(COMMAND "${MC_PYTHON_OF_PACKAGE}" -c
  "import setuptools, wheel, venv, pip" RESULT_VARIABLE status ERROR_QUIET)
if(NOT status EQUAL 0)
  message(WARNING "no pip, setuptools and wheel for ${MC_PYTHON_OF_PACKAGE}: "
    "the test of the wheel is left out")
  return()
endif()
set(wheel_options -DMC_WERROR=${MC_WERROR}
  -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER})
if(CMAKE_C_COMPILER_LAUNCHER)
  list(APPEND wheel_options
    -DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER})
endif()
add_test(NAME python.wheel COMMAND
  "${PROJECT_SOURCE_DIR}/python/tests/wheel.sh" "${MC_PYTHON_OF_PACKAGE}"
  "${PROJECT_BINARY_DIR}/wheel" ${wheel_options})
set_tests_properties(python.wheel PROPERTIES TIMEOUT 600
  ENVIRONMENT "CCACHE_NOHASHDIR=1")
