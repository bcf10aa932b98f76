# The tools as people run them: the built binary, its words and exit codes.
# test_tool(ROOM): tests/tools_ROOM.py, ctest name tools.ROOM.
function(test_tool room)
  add_test(NAME tools.${room} COMMAND "${MC_PYTHON3}"
    "${CMAKE_CURRENT_SOURCE_DIR}/tools_${room}.py")
  set(timeout 120)
  if(MC_SANITIZE)
    set(timeout 600)
  endif()
  set_tests_properties(tools.${room} PROPERTIES TIMEOUT ${timeout}
    ENVIRONMENT "MC_EVENTS=$<TARGET_FILE:mc-events>;MC_STORE=$<TARGET_FILE:mc-store>;MC_MASTER=$<TARGET_FILE:mc-master>;MC_VECTORS=${CMAKE_CURRENT_SOURCE_DIR}/data/vectors;PYTHONDONTWRITEBYTECODE=1;${MC_TEST_ENVIRONMENT}")
endfunction()

if(TARGET mc-events AND MC_PYTHON3)
  foreach(room ask cli decode encode index stream master pages recovery proxy lint verify)
    test_tool(${room})
  endforeach()
endif()

# mc-store, on its own and on a master and nodes over loopback.
function(test_store_tool room)
  add_test(NAME tools.${room} COMMAND "${MC_PYTHON3}"
    "${CMAKE_CURRENT_SOURCE_DIR}/tools_${room}.py")
  set(timeout 180)
  set(scale)
  if(MC_SANITIZE)
    set(timeout 900)
    set(scale "MC_FLOW_PATIENCE=300")
  endif()
  set(master)
  if(TARGET mc-master)
    set(master "MC_MASTER=$<TARGET_FILE:mc-master>")
  endif()
  set_tests_properties(tools.${room} PROPERTIES TIMEOUT ${timeout}
    ENVIRONMENT "MC_STORE=$<TARGET_FILE:mc-store>;MC_EVENTS=$<TARGET_FILE:mc-events>;${master};PYTHONDONTWRITEBYTECODE=1;${scale};${MC_TEST_ENVIRONMENT}")
endfunction()

if(TARGET mc-store AND TARGET mc-events AND MC_PYTHON3)
  test_store_tool(store_cli)
  if(TARGET mc-master)
    test_store_tool(store)
  endif()
endif()
