# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: the shared library, its headers, the command, and what find_package(renaissance CONFIG) and pkg-config
# read; `cpack` makes a Debian package of the same. Sanitizer and fuzzing builds are not installed.
if(TR_SANITIZE OR TR_FUZZ)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The objects of the static library `tr`. Only what is marked TR_API can be linked (tests/package/symbols.cmake holds it);
# libraries inside stay inside.
get_property(modules GLOBAL PROPERTY TR_MODULES)
add_library(renaissance_library SHARED)
add_library(renaissance::renaissance ALIAS renaissance_library)
foreach(module ${modules})
  target_sources(renaissance_library PRIVATE $<TARGET_OBJECTS:${module}>)
  get_target_property(libraries ${module} LINK_LIBRARIES)
  target_link_libraries(renaissance_library PRIVATE ${libraries})
endforeach()
target_compile_features(renaissance_library INTERFACE cxx_std_20)
target_link_options(renaissance_library PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/renaissance.map)
set_target_properties(renaissance_library PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/renaissance.map)
set_target_properties(renaissance_library PROPERTIES
  OUTPUT_NAME renaissance EXPORT_NAME renaissance LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

install(TARGETS renaissance_library EXPORT renaissance
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/renaissance.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/renaissance DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/renaissance)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/renaissance)
install(EXPORT renaissance NAMESPACE renaissance:: FILE renaissanceTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/renaissanceConfig.cmake.in ${CMAKE_BINARY_DIR}/renaissanceConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/renaissanceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/renaissanceConfig.cmake ${CMAKE_BINARY_DIR}/renaissanceConfigVersion.cmake
        DESTINATION ${package_folder})
file(RELATIVE_PATH TR_UP_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/renaissance.pc.in ${CMAKE_BINARY_DIR}/renaissance.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/renaissance.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME renaissance)
set(CPACK_PACKAGE_CONTACT "The Renaissance authors <renaissance@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Deep-learning training framework: library, headers, command")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # dependencies are those of the libraries that the programs ask for
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_SOURCE_DIR}/dist)
include(CPack)
