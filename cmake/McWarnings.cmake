# Language level, warnings and sanitizers of every target of the project.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wstrict-prototypes -Wmissing-prototypes -Wvla)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  # As clang does anyway: calls within a library may be inlined.
  add_compile_options(-fno-semantic-interposition)
endif()
if(MC_WERROR)
  add_compile_options(-Werror)
endif()
if(MC_SANITIZE)
  add_compile_options(-fsanitize=${MC_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MC_SANITIZE})
endif()

# What every test finds in its environment. Under sanitizers all tests of a
# program run in one process, and sizes that cannot be are answered with NULL.
set(MC_TEST_ENVIRONMENT)
if(MC_SANITIZE)
  set(MC_TEST_ENVIRONMENT
    "CK_FORK=no"
    "ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=allocator_may_return_null=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")
endif()
