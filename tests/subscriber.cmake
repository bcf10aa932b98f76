# The rooms of subscriber/, without an index.
foreach(room asker catching cursor holes mirror mirror_past stream source
    source_again)
  mc_test(subscriber ${room} LINK mc_subscriber mckv-base PkgConfig::ZMQ)
endforeach()
mc_test(subscriber recovery_answer SOURCES support/vectors.c
  LINK mc_subscriber mckv-base PkgConfig::ZMQ PkgConfig::JSONC)
mc_test(subscriber ask LINK mckv-subscriber mckv-base PkgConfig::ZMQ)
mc_test(subscriber recovering SOURCES support/publisher_model.c
  LINK mc_subscriber mckv-base PkgConfig::ZMQ TIMEOUT 300)
mc_test(subscriber engine_source
  LINK mckv-subscriber mckv-base PkgConfig::MSGPACK)
mc_test(subscriber subscriber SOURCES support/vectors.c
  LINK mc_subscriber mckv-base PkgConfig::ZMQ PkgConfig::JSONC)

# What lint thinks of messages, and the store's own among them.
if(TARGET mc_lint)
  mc_test(subscriber lint SOURCES support/vectors.c
    LINK mc_lint mckv-base PkgConfig::JSONC)
  mc_serial(subscriber lint)
endif()

# The index, inside and as its readers see it.
foreach(room known_events index_bounds index_depth index_export index_random index_readers
    index_table)
  mc_test(subscriber ${room} SOURCES support/index_check.c
    LINK mc_subscriber mckv-base PkgConfig::ZMQ PkgConfig::JSONC TIMEOUT 300)
endforeach()
target_sources(test_index_readers PRIVATE support/index_play.c)

# And beside the plain model: a program that answers scripts.
add_executable(index_answers support/index_answers.c)
target_link_libraries(index_answers PRIVATE mckv-subscriber)
if(MC_PYTHON3)
  add_test(NAME subscriber.index_model COMMAND "${MC_PYTHON3}"
    "${CMAKE_CURRENT_SOURCE_DIR}/subscriber_index_model.py")
  set(timeout 300)
  if(MC_SANITIZE OR DEFINED ENV{MC_SOAK})
    set(timeout 1500)
  endif()
  set_tests_properties(subscriber.index_model PROPERTIES TIMEOUT ${timeout}
    ENVIRONMENT "MC_INDEX_ANSWERS=$<TARGET_FILE:index_answers>;MC_VECTORS=${CMAKE_CURRENT_SOURCE_DIR}/data/vectors;PYTHONDONTWRITEBYTECODE=1;${MC_TEST_ENVIRONMENT}")
endif()

mc_serial(subscriber catching cursor engine_source holes index_bounds index_depth
  index_export index_random index_table known_events mirror mirror_past recovering
  recovery_answer stream)
