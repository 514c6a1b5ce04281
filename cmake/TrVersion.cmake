# SPDX-License-Identifier: Apache-2.0
# The version stands in CMakeLists.txt, for the build, and in a public header, for users; they must agree.
file(STRINGS ${PROJECT_SOURCE_DIR}/include/renaissance/core/version.h lines REGEX "^#define TR_VERSION \"")
if(NOT lines STREQUAL "#define TR_VERSION \"${PROJECT_VERSION}\"")
  message(FATAL_ERROR "include/renaissance/core/version.h says '${lines}', CMakeLists.txt says ${PROJECT_VERSION}")
endif()
