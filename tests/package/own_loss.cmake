# SPDX-License-Identifier: Apache-2.0
# Losses of a user's own, built outside the tree against an installation, and run.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
set(prefix "${FOLDER}/own_loss/prefix")
install_into("${prefix}")
build_project("${CMAKE_CURRENT_LIST_DIR}/own_loss" "${prefix}" "${FOLDER}/own_loss/build"
              -DCMAKE_CXX_FLAGS=-Wall\ -Wextra\ -Werror)
execute_process(COMMAND "${FOLDER}/own_loss/build/own_loss" cpu WORKING_DIRECTORY "${FOLDER}/own_loss"
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "own_loss ended with ${status}:\n${output}")
endif()
expect("own_loss" "${output}" "own losses: all holds")
