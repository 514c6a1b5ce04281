# SPDX-License-Identifier: Apache-2.0
# The README's program and project against an installation, by CMake, where it was installed and where it was moved to.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
set(work "${FOLDER}/installed")
set(prefix "${work}/first")
set(moved "${work}/moved with spaces")
file(REMOVE_RECURSE "${work}")
install_into("${prefix}")

# No text of the package may lead back into the build or source tree.
file(GLOB_RECURSE texts "${prefix}/*.cmake" "${prefix}/*.pc" "${prefix}/*.h")
foreach(text IN LISTS texts)
  file(STRINGS "${text}" lines REGEX "${SOURCE}")
  if(lines)
    message(FATAL_ERROR "${text} names the source tree: ${lines}")
  endif()
endforeach()

file(COPY "${CMAKE_CURRENT_LIST_DIR}/user/CMakeLists.txt" DESTINATION "${work}/project")
configure_file("${SOURCE}/tests/example/readme_program.cpp" "${work}/project/mlp.cpp" COPYONLY)
build_project("${work}/project" "${prefix}" "${work}/build")
run("the user's program" ${CMAKE_COMMAND} -E chdir "${work}" "${work}/build/mlp")
expect("the user's program" "${output}" "best top-1: 0\\.9[0-9]")
run("the installed command" "${prefix}/bin/renaissance" --version)
expect("the installed command" "${output}" "^renaissance ${VERSION}\n$")
run("the installed recipe" "${prefix}/bin/renaissance" plan "${prefix}/share/renaissance/recipes/mnist-mlp.toml" --batch 200)
expect("the installed recipe" "${output}" "mnist-mlp.toml, batch 200")

# A version that is not there is refused, as find_package does it.
file(READ "${work}/project/CMakeLists.txt" text)
string(REPLACE "renaissance 0.1 CONFIG" "renaissance 99 CONFIG" text "${text}")
file(WRITE "${work}/other/CMakeLists.txt" "${text}")
execute_process(COMMAND ${CMAKE_COMMAND} -S "${work}/other" -B "${work}/refused" -DCMAKE_CXX_COMPILER=${CXX}
                        "-DCMAKE_PREFIX_PATH=${prefix}"
                RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(status EQUAL 0 OR NOT text MATCHES "version: ${VERSION}")
  message(FATAL_ERROR "version 99 was asked for, expected a refusal that names ${VERSION}:\n${text}")
endif()

# An installation can be moved.
file(RENAME "${prefix}" "${moved}")
build_project("${work}/project" "${moved}" "${work}/build")
