# The house itself: who includes whom, what is not written, what is installed.
# These scripts need no package of Python's.
find_program(MC_PLAIN_PYTHON3 NAMES python3 REQUIRED)
add_test(NAME house.includes COMMAND ${MC_PLAIN_PYTHON3}
  "${PROJECT_SOURCE_DIR}/cmake/check_includes.py" "${PROJECT_SOURCE_DIR}")
add_test(NAME house.banned COMMAND ${MC_PLAIN_PYTHON3}
  "${PROJECT_SOURCE_DIR}/cmake/check_banned.py" "${PROJECT_SOURCE_DIR}")
add_test(NAME house.checks_can_fail COMMAND ${MC_PLAIN_PYTHON3}
  "${CMAKE_CURRENT_SOURCE_DIR}/support/plant_faults.py"
  "${PROJECT_SOURCE_DIR}/cmake")

# What is built with a sanitizer can only be linked with it.
if(NOT MC_SANITIZE)
  add_test(NAME house.install COMMAND
    "${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh" "${PROJECT_BINARY_DIR}"
    "${CMAKE_C_COMPILER}")
  set_tests_properties(house.install PROPERTIES TIMEOUT 300)
endif()

# The ratios of README are made there.
mc_test(house bench SOURCES ../bench/bench.c LINK m)
