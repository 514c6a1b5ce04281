# SPDX-License-Identifier: Apache-2.0
# A program built with what pkg-config says of an installation.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
if(NOT PKG_CONFIG)
  message("skipped: this machine has no pkg-config")
  return()
endif()
set(prefix "${FOLDER}/pkg_config")
install_into("${prefix}")
set(ENV{PKG_CONFIG_PATH} "${prefix}/lib/pkgconfig")
run("pkg-config --modversion" ${PKG_CONFIG} --modversion renaissance)
expect("pkg-config --modversion" "${output}" "^${VERSION}\n$")
run("pkg-config" ${PKG_CONFIG} --cflags --libs renaissance)
separate_arguments(flags UNIX_COMMAND "${output}")
run("the compiler with pkg-config's flags" ${CXX} -std=c++20 -O1 "${CMAKE_CURRENT_LIST_DIR}/digits.cpp" ${flags}
    "-Wl,-rpath,${prefix}/lib" -o "${prefix}/digits")
run("the program built by pkg-config" "${prefix}/digits")
expect("the program built by pkg-config" "${output}" "renaissance ${VERSION}.*best top-1: 0\\.9[0-9].*refused: /nowhere")
