# The tools of the store, each one binary on the public library, with the names
# by which launchers know them.
if(NOT TARGET mckv)
  return()
endif()

add_executable(mc-store
  store/tool_store.c store/tool_store_args.c store/tool_store_ask.c
  store/tool_store_bench.c store/tool_store_get.c store/tool_store_json.c
  store/tool_store_keygen.c store/tool_store_launch.c store/tool_store_list.c
  store/tool_store_many.c store/tool_store_put.c store/tool_store_serve.c
  store/tool_store_words.c)
target_compile_definitions(mc-store PRIVATE MC_VERSION="${PROJECT_VERSION}")
target_link_libraries(mc-store PRIVATE mc_tool mckv PkgConfig::JSONC Threads::Threads m)
set_target_properties(mc-store PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS mc-store RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

add_custom_command(TARGET mc-store POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E create_symlink mc-store mooncake_client
  WORKING_DIRECTORY "$<TARGET_FILE_DIR:mc-store>")
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -E create_symlink mc-store
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/mooncake_client\")")

add_executable(mc-master
  store/tool_master.c store/tool_master_args.c store/tool_master_config.c
  store/tool_master_flags.c store/tool_master_opts.c)
target_compile_definitions(mc-master PRIVATE MC_VERSION="${PROJECT_VERSION}")
target_link_libraries(mc-master PRIVATE mc_tool mckv PkgConfig::JSONC Threads::Threads)
set_target_properties(mc-master PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS mc-master RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

add_custom_command(TARGET mc-master POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E create_symlink mc-master mooncake_master
  WORKING_DIRECTORY "$<TARGET_FILE_DIR:mc-master>")
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -E create_symlink mc-master
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/mooncake_master\")")
