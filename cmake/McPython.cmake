# MC_PYTHON3: a Python that can import zmq and msgpack, for tests that look at
# the stream from outside. The first python3 on PATH need not be the one that
# the packages were installed for. Empty if there is none: such tests are left
# out, with a word.
if(NOT MC_PYTHON3)
  foreach(candidate python3 /usr/bin/python3)
    execute_process(COMMAND ${candidate} -c
        "import sys, zmq, msgpack; print(sys.executable)"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
      RESULT_VARIABLE status ERROR_QUIET)
    if(status EQUAL 0)
      set(MC_PYTHON3 "${found}" CACHE FILEPATH
        "A Python 3 with zmq and msgpack")
      break()
    endif()
  endforeach()
endif()
if(NOT MC_PYTHON3)
  message(WARNING "no python3 with zmq and msgpack: tests that need it are "
    "left out")
endif()
