# mc_folder(NAME SOURCES... LINK...): the object library of one folder; it
# exports the folder as include path.
function(mc_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINK" ${ARGN})
  add_library(mc_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(mc_${name} PUBLIC
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>")
  foreach(used ${ARG_USES})
    target_include_directories(mc_${name} PUBLIC
      "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${used}>")
  endforeach()
  target_link_libraries(mc_${name} PRIVATE ${ARG_LINK})
endfunction()

# mc_installed_library(NAME FOLDERS... PUBLIC... LINK...): one installed library
# made of the objects of its folders.
function(mc_installed_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;PUBLIC;LINK" ${ARGN})
  set(objects)
  set(includes)
  foreach(folder ${ARG_FOLDERS})
    if(TARGET mc_${folder})
      list(APPEND objects $<TARGET_OBJECTS:mc_${folder}>)
      list(APPEND includes "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${folder}>")
    endif()
  endforeach()
  if(NOT objects)
    return()
  endif()
  add_library(${name} ${objects})
  add_library(mckv::${name} ALIAS ${name})
  target_include_directories(${name} PUBLIC ${includes}
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/mckv>")
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_LINK})
  if(NOT MC_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  if(BUILD_SHARED_LIBS)
    set(names "${PROJECT_SOURCE_DIR}/cmake/mckv.map")
    target_link_options(${name} PRIVATE "-Wl,--version-script=${names}")
    set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${names}")
  endif()
  # Threads call back into the library at their end, so it is never unloaded.
  target_link_options(${name} PRIVATE -Wl,-z,nodelete)
  set_target_properties(${name} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    INSTALL_RPATH "$ORIGIN" LINKER_LANGUAGE C)
  set_property(GLOBAL APPEND PROPERTY MC_INSTALLED ${name})
  foreach(folder ${ARG_FOLDERS})
    file(GLOB headers "${PROJECT_SOURCE_DIR}/${folder}/mc_*.h")
    install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mckv)
  endforeach()
endfunction()
