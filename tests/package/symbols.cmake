# SPDX-License-Identifier: Apache-2.0
# What the installed library exports is in namespace tr and stands in an installed header; nothing of the libraries inside,
# nothing of the standard library, nothing of C.
cmake_policy(SET CMP0057 NEW)  # IN_LIST
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
set(prefix "${FOLDER}/symbols/prefix")
install_into("${prefix}")
file(GLOB_RECURSE libraries "${prefix}/*.so" "${prefix}/*.a")
list(LENGTH libraries count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "expected one installed library, found ${libraries}")
endif()

file(GLOB_RECURSE headers "${prefix}/include/*.h")
set(words "")
foreach(header IN LISTS headers)
  file(READ "${header}" text)
  string(REGEX MATCHALL "[A-Za-z_][A-Za-z_0-9]*" found "${text}")
  list(APPEND words ${found})
  list(REMOVE_DUPLICATES words)
endforeach()

# undeclared(LINES OUT): those that are no name of the headers. Brackets and semicolons are CMake's own.
function(undeclared lines out)
  string(REGEX REPLACE "\\[abi:[a-z0-9]+\\]" "" lines "${lines}")
  string(REGEX REPLACE "[][;]" "_" lines "${lines}")
  string(REGEX REPLACE "\n" ";" lines "${lines}")
  set(wrong "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[^ ]+ [A-Za-z] " "" name "${line}")  # address and kind
    string(REGEX REPLACE "^(typeinfo( name)?|vtable|VTT|guard variable) for |^(non-)?virtual thunk to " "" name "${name}")
    if(name STREQUAL "")
      continue()
    endif()
    string(REGEX REPLACE "operator[^A-Za-z_].*$" "operator" plain "${name}")
    string(REGEX REPLACE "<.*|[(].*" "" plain "${plain}")
    string(REGEX MATCH "([A-Za-z_][A-Za-z_0-9]*)$" last "${plain}")
    string(REGEX REPLACE "^tr::" "" inside "${plain}")
    if(plain STREQUAL inside OR inside MATCHES "^(cpu|cuda|data|dist|detail|ops|test|zoo::detail)::" OR
       (NOT last STREQUAL "operator" AND NOT last IN_LIST words))
      list(APPEND wrong "${name}")
    endif()
  endforeach()
  set(${out} "${wrong}" PARENT_SCOPE)
endfunction()

run("nm" ${NM} -D --defined-only -C ${libraries})
foreach(known "tr::DeepLearningTask::run[(]" "tr::run_op[(]" "typeinfo for tr::InvalidArgument")
  expect("nm" "${output}" "${known}")
endforeach()
undeclared("${output}" wrong)
if(wrong)
  string(REPLACE ";" "\n  " wrong "${wrong}")
  message(FATAL_ERROR "exported without being public:\n  ${wrong}")
endif()

# The test itself sees what is wrong.
foreach(line "00 T deflate" "00 W std::vector<tr::Value>::push_back(tr::Value const&)" "00 T tr::cpu::launch(int)"
             "00 T tr::no_such_name_of_a_header(int)" "00 V typeinfo for fmt::v9::format_error")
  undeclared("${line}" wrong)
  if(NOT wrong)
    message(FATAL_ERROR "'${line}' was taken for a public name")
  endif()
endforeach()
