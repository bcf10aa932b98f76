# Whole-system stories, told from outside: programs that talk over loopback.
# test_flow(STORY): tests/flow_STORY.py, ctest name flow.STORY.
function(test_flow story)
  add_test(NAME flow.${story} COMMAND "${MC_PYTHON3}"
    "${CMAKE_CURRENT_SOURCE_DIR}/flow_${story}.py")
  set(timeout 300)
  set(scale)
  if(MC_SANITIZE)
    set(timeout 1500)
    set(scale "MC_FLOW_PATIENCE=600")
  endif()
  set_tests_properties(flow.${story} PROPERTIES TIMEOUT ${timeout}
    ENVIRONMENT "MC_EVENTS=$<TARGET_FILE:mc-events>;MC_FLOW_WRITER=$<TARGET_FILE:flow_writer>;MC_EXAMPLES=${PROJECT_BINARY_DIR}/examples;MC_QUICKSTART=${PROJECT_BINARY_DIR}/examples/quickstart;MC_SOURCE=${PROJECT_SOURCE_DIR};MC_BUILD=${PROJECT_BINARY_DIR};MC_CC=${CMAKE_C_COMPILER};MC_TRACE=${PROJECT_SOURCE_DIR}/examples/data/conversation.jsonl;PYTHONDONTWRITEBYTECODE=1;${scale};${MC_TEST_ENVIRONMENT}")
endfunction()

if(TARGET mckv AND TARGET mc-events AND MC_PYTHON3)
  add_executable(flow_writer flow_writer.c)
  target_link_libraries(flow_writer PRIVATE mckv PkgConfig::JSONC)
  test_flow(follow)
  test_flow(followers)
  # A program without our flags links neither static libraries nor sanitizers.
  if(BUILD_SHARED_LIBS AND NOT MC_SANITIZE)
    test_flow(readme)
  endif()
  if(TARGET quickstart_writer)
    test_flow(examples)
    test_flow(quickstart)
  endif()
endif()
if(TARGET mckv AND TARGET mckv-subscriber)
  mc_test(flow flow_crowd LINK mckv mckv-subscriber mckv-base)
endif()
