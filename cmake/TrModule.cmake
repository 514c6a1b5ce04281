# SPDX-License-Identifier: Apache-2.0
# Helpers that keep one line per target. Every folder of src/ is one object library; all of them make `tr`.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(TR_CCACHE ccache)
if(TR_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TR_CCACHE})
endif()

# Flags of every target of ours. Contraction is off everywhere: the same arithmetic on every device.
add_library(tr_flags INTERFACE)
# tr_cxx_options(...): for C++ files; nvcc hands its own on to the host compiler (cmake/TrCuda.cmake).
function(tr_cxx_options)
  target_compile_options(tr_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
tr_cxx_options(-march=${TR_CPU_ARCH} -ffp-contract=off -fvisibility=hidden -fvisibility-inlines-hidden -Wall -Wextra
               -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # gcc 12 sees overlapping copies in std::string's operator+ (its bug 105651), and at -O3 writes past the
  # fill character of fmt 9's format specs.
  tr_cxx_options(-Wno-restrict -Wno-stringop-overflow)
endif()
# Only with the compiler that the project is tested with: a newer one's new warnings must not stop a newcomer.
if(TR_WARNINGS_AS_ERRORS AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  tr_cxx_options(-Werror)
endif()
if(TR_SANITIZE)
  string(REPLACE ";" "," sanitizers "${TR_SANITIZE}")
  tr_cxx_options(-fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 -O1)
  target_compile_definitions(tr_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(tr_flags INTERFACE -fsanitize=${sanitizers})
endif()
if(TR_FUZZ)
  tr_cxx_options(-fsanitize=fuzzer-no-link)
endif()
target_include_directories(tr_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(tr_flags INTERFACE Threads::Threads)

set_property(GLOBAL PROPERTY TR_MODULES "")

# tr_module(graph SOURCES a.cpp ... DEPENDS tensor LIBRARIES fmt::fmt)
# DEPENDS names the folders that this one may include; tools/check_includes.py holds it.
function(tr_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(tr_${name} OBJECT ${ARG_SOURCES})
  target_link_libraries(tr_${name} PUBLIC tr_flags fmt::fmt ${ARG_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY TR_MODULES tr_${name})
endfunction()

# Call after all tr_module: the static library `tr` from every module's objects.
function(tr_library)
  get_property(modules GLOBAL PROPERTY TR_MODULES)
  add_library(tr STATIC)
  foreach(module ${modules})
    target_sources(tr PRIVATE $<TARGET_OBJECTS:${module}>)
    get_target_property(libraries ${module} LINK_LIBRARIES)
    target_link_libraries(tr PUBLIC ${libraries})
  endforeach()
endfunction()

# tr_program(name SOURCES ... ): linked with the whole library, so that self-registering ops and kernels stay.
function(tr_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE -Wl,--whole-archive tr -Wl,--no-whole-archive ${ARG_LIBRARIES})
  # As in a bundle: libraries in ../lib are found first, those that a library needs too (RPATH, not RUNPATH).
  set_target_properties(${name} PROPERTIES BUILD_RPATH "$ORIGIN/../lib" INSTALL_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
endfunction()

# tr_fuzz(idx SOURCES a.cpp ...): a libFuzzer program `idx_fuzz`.
function(tr_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  tr_program(${name}_fuzz SOURCES ${ARG_SOURCES} LIBRARIES ${ARG_LIBRARIES})
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
endfunction()

# Folder under which tests find real data sets ($RENAISSANCE_TEST_DATA/mnist); tools/run_tests.sh fills it where it can.
set(TR_TEST_ENVIRONMENT RENAISSANCE_TEST_DATA=${PROJECT_SOURCE_DIR}/build/data)

# tr_test(core SOURCES a_test.cpp ... LABELS cpu): one GoogleTest program `core_test`, a CTest case per test.
function(tr_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LABELS;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(TR_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  tr_program(${name}_test SOURCES ${ARG_SOURCES} LIBRARIES GTest::gtest_main ${ARG_LIBRARIES})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. NO_PRETTY_VALUES DISCOVERY_TIMEOUT 120
                       PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${TR_TEST_ENVIRONMENT}")
endfunction()
