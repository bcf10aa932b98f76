# What is installed beside libraries and headers: a pkg-config file for each
# library, and one CMake package for all. Both find their prefix from where they
# stand, so that a tree may be moved or staged.
get_property(installed GLOBAL PROPERTY MC_INSTALLED)
if(NOT installed)
  return()
endif()

install(TARGETS ${installed} EXPORT mckvTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/mckv")
install(EXPORT mckvTargets NAMESPACE mckv:: DESTINATION ${package_dir})
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/mckvConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/mckvConfig.cmake"
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mckvConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/mckvConfig.cmake"
  "${PROJECT_BINARY_DIR}/mckvConfigVersion.cmake" DESTINATION ${package_dir})

# The way from the folder of the .pc files back to the prefix.
file(RELATIVE_PATH MC_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" MC_PC_PREFIX "${MC_PC_PREFIX}")
set(MC_PC_PREFIX "\${pcfiledir}/${MC_PC_PREFIX}")
# What a library is linked with. Users of a static one have to link it too; not
# by pkg-config --static, which would ask for static forms of everything below.
set(needs_mckv-base libutf8proc)
set(needs_mckv libzmq libpcre2-8 openssl libcurl libmicrohttpd json-c yaml-0.1)
set(needs_mckv-subscriber libzmq json-c)
foreach(library ${installed})
  set(requires)
  if(NOT library STREQUAL "mckv-base")
    set(requires "mckv-base = ${PROJECT_VERSION}")
  endif()
  set(requires_private ${needs_${library}})
  set(MC_PC_LIBS)
  set(MC_PC_LIBS_PRIVATE "-pthread -lm")
  if(NOT BUILD_SHARED_LIBS)
    list(APPEND requires ${requires_private})
    set(requires_private)
    set(MC_PC_LIBS "${MC_PC_LIBS_PRIVATE}")
    set(MC_PC_LIBS_PRIVATE)
  endif()
  list(JOIN requires ", " MC_PC_REQUIRES)
  list(JOIN requires_private ", " MC_PC_REQUIRES_PRIVATE)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${library}.pc.in"
    "${PROJECT_BINARY_DIR}/${library}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${library}.pc"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
