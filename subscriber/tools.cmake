# The tools of the subscriber, each one binary on the public library.
if(NOT TARGET mckv-subscriber)
  return()
endif()
pkg_check_modules(JSONC REQUIRED IMPORTED_TARGET json-c>=0.15)

# The rules of lint, for the tool and its tests; no library has them.
add_library(mc_lint OBJECT
  subscriber/lint.c subscriber/lint_batch.c subscriber/lint_engine.c
  subscriber/lint_rules.c subscriber/lint_store.c subscriber/lint_tree.c)
target_include_directories(mc_lint PUBLIC subscriber)
target_link_libraries(mc_lint PUBLIC mckv-base)

add_executable(mc-events
  subscriber/tool_events.c subscriber/tool_args.c subscriber/tool_line.c
  subscriber/tool_rows.c subscriber/tool_frames.c subscriber/tool_show.c
  subscriber/tool_show_engine.c subscriber/tool_ask.c subscriber/tool_replay.c
  subscriber/tool_snapshot.c subscriber/tool_session.c
  subscriber/tool_sessions.c subscriber/tool_sessions_open.c
  subscriber/tool_follow.c subscriber/tool_tail.c subscriber/tool_stat.c
  subscriber/tool_tally.c subscriber/tool_decode.c subscriber/tool_encode.c
  subscriber/tool_encode_row.c subscriber/tool_index.c subscriber/tool_record.c
  subscriber/tool_play.c subscriber/tool_player.c subscriber/tool_lint.c
  subscriber/tool_compare.c subscriber/tool_difference.c subscriber/tool_admin.c
  subscriber/tool_listed.c subscriber/tool_live.c
  subscriber/tool_verify.c)
target_compile_definitions(mc-events PRIVATE MC_VERSION="${PROJECT_VERSION}")
target_link_libraries(mc-events PRIVATE mc_lint mc_tool mckv-subscriber
  PkgConfig::JSONC PkgConfig::ZMQ PkgConfig::CURL)
set_target_properties(mc-events PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS mc-events RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
