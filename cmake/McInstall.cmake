# Install rules; the package files stand in this folder.
get_property(installed GLOBAL PROPERTY MC_INSTALLED)
if(installed)
  install(TARGETS ${installed} EXPORT mckvTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
