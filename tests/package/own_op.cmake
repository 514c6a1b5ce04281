# SPDX-License-Identifier: Apache-2.0
# Ops of a user's own, built outside the tree against an installation, and run.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
set(prefix "${FOLDER}/own_op/prefix")
install_into("${prefix}")
build_project("${CMAKE_CURRENT_LIST_DIR}/own_op" "${prefix}" "${FOLDER}/own_op/build" -DCMAKE_CXX_FLAGS=-Wall\ -Wextra\ -Werror)
run("own_op" "${FOLDER}/own_op/build/own_op" cpu)
expect("own_op" "${output}" "own ops: all holds")
