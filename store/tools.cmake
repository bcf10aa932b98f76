# The tool of the store, one binary on the public library, and its second name.
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
target_link_libraries(mc-store PRIVATE mckv PkgConfig::JSONC Threads::Threads m)
set_target_properties(mc-store PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS mc-store RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

add_custom_command(TARGET mc-store POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E create_symlink mc-store mooncake_client
  WORKING_DIRECTORY "$<TARGET_FILE_DIR:mc-store>")
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -E create_symlink mc-store
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/mooncake_client\")")
