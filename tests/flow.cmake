# Whole-system stories, told from outside: programs that talk over loopback.
# test_flow(STORY): tests/flow_STORY.py, ctest name flow.STORY.
function(test_flow story)
  add_test(NAME flow.${story} COMMAND "${MC_PYTHON3}"
    "${CMAKE_CURRENT_SOURCE_DIR}/flow_${story}.py")
  set(timeout 300)
  set(scale)
  set(programs)
  if(TARGET mc-master AND TARGET mc-store)
    set(programs "MC_MASTER=$<TARGET_FILE:mc-master>;MC_STORE=$<TARGET_FILE:mc-store>;")
  endif()
  if(MC_SANITIZE)
    set(timeout 1500)
    set(scale "MC_FLOW_PATIENCE=600")
  endif()
  set_tests_properties(flow.${story} PROPERTIES TIMEOUT ${timeout}
    ENVIRONMENT "MC_EVENTS=$<TARGET_FILE:mc-events>;${programs}MC_FLOW_WRITER=$<TARGET_FILE:flow_writer>;MC_EXAMPLES=${PROJECT_BINARY_DIR}/examples;MC_QUICKSTART=${PROJECT_BINARY_DIR}/examples/quickstart;MC_SOURCE=${PROJECT_SOURCE_DIR};MC_BUILD=${PROJECT_BINARY_DIR};MC_CC=${CMAKE_C_COMPILER};MC_TRACE=${PROJECT_SOURCE_DIR}/examples/data/conversation.jsonl;PYTHONDONTWRITEBYTECODE=1;${scale};${MC_TEST_ENVIRONMENT}")
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
if(TARGET mc-master AND TARGET mc-store AND MC_PYTHON3)
  add_executable(soak_load soak_load.c)
  target_link_libraries(soak_load PRIVATE mckv Threads::Threads)
  test_flow(cluster)
  test_flow(faults)
  if(TARGET example_layerwise)
    test_flow(layerwise)
  endif()
  set(soak --seconds 60 --seed 1)
  set(patience 300)
  if("$ENV{MC_SOAK}")
    set(soak --seconds 600 --seed 2)
    set(patience 1500)
  endif()
  add_test(NAME flow.soak COMMAND "${MC_PYTHON3}"
    "${CMAKE_CURRENT_SOURCE_DIR}/soak.py" ${soak})
  set_tests_properties(flow.soak PROPERTIES TIMEOUT ${patience}
    ENVIRONMENT "MC_MASTER=$<TARGET_FILE:mc-master>;MC_STORE=$<TARGET_FILE:mc-store>;MC_SOAK_LOAD=$<TARGET_FILE:soak_load>;PYTHONDONTWRITEBYTECODE=1;${MC_TEST_ENVIRONMENT}")
endif()
# test_chaos(NAME SECONDS ARG...): tests/chaos.py. With MC_SOAK for an hour.
function(test_chaos name seconds)
  if("$ENV{MC_SOAK}")
    set(seconds 3600)
  endif()
  math(EXPR patience "${seconds} + 240")
  set(settle 60)
  if(MC_SANITIZE)
    math(EXPR patience "${patience} * 3")
    set(settle 150)
  endif()
  if("${ARGN}" MATCHES "without-recovery")
    set(settle 8)
  endif()
  add_test(NAME flow.${name} COMMAND "${MC_PYTHON3}"
    "${CMAKE_CURRENT_SOURCE_DIR}/chaos.py" --seconds ${seconds} ${ARGN})
  set_tests_properties(flow.${name} PROPERTIES TIMEOUT ${patience}
    ENVIRONMENT "MC_MASTER=$<TARGET_FILE:mc-master>;MC_STORE=$<TARGET_FILE:mc-store>;MC_CHAOS_LOAD=$<TARGET_FILE:chaos_load>;MC_CHAOS_FOLLOW=$<TARGET_FILE:chaos_follow>;MC_EVENTS=$<TARGET_FILE:mc-events>;MC_CHAOS_SETTLE=${settle};PYTHONDONTWRITEBYTECODE=1;${MC_TEST_ENVIRONMENT}")
endfunction()

if(TARGET mc-master AND TARGET mc-store AND TARGET mc-events AND MC_PYTHON3)
  add_executable(chaos_load chaos_load.c)
  target_link_libraries(chaos_load PRIVATE mckv Threads::Threads)
  add_executable(chaos_follow chaos_follow.c)
  target_link_libraries(chaos_follow PRIVATE mckv-subscriber)
  test_chaos(chaos 30 --seed 12)
  # What proves the rig and the contract needs no sanitizer.
  if(NOT MC_SANITIZE)
    test_chaos(chaos_finds 20 --seed 2 --without-recovery)
    test_chaos(chaos_python 15 --seed 3 --python)
    test_chaos(chaos_curve 15 --seed 24 --curve)
  endif()
endif()
if(TARGET mckv AND TARGET mckv-subscriber)
  mc_test(flow flow_crowd SOURCES support/flow_agree.c
    LINK mckv mckv-subscriber mckv-base)
  mc_test(flow flow_recovery SOURCES support/flow_agree.c
    LINK mckv mckv-subscriber mckv-base PkgConfig::ZMQ)
  if(TARGET mc-master)
    mc_test(flow flow_gone SOURCES support/master_process.c support/self_process.c
      support/flow_agree.c
      LINK mckv mckv-subscriber mckv-base)
    target_compile_definitions(test_flow_gone PRIVATE
      MC_MASTER_BINARY="$<TARGET_FILE:mc-master>")
    add_dependencies(test_flow_gone mc-master)
  endif()
  mc_test(flow flow_rebuild SOURCES support/flow_agree.c
    LINK mckv mckv-subscriber mckv-base TIMEOUT 1200)
  mc_test(flow flow_spoilt SOURCES support/event_spoil.c support/flow_agree.c
    LINK mckv mckv-subscriber mckv-base PkgConfig::ZMQ PkgConfig::MSGPACK)
endif()
