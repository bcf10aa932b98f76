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
foreach(library ${installed})
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${library}.pc.in"
    "${PROJECT_BINARY_DIR}/${library}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${library}.pc"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
