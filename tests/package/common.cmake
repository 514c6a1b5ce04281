# SPDX-License-Identifier: Apache-2.0
# What the scripts of this folder share.

# run(WHAT COMMAND ...): ends the test with the command's output unless it ends well; ${output} has what it wrote.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} ended with ${status}:\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

function(expect what text regex)
  if(NOT text MATCHES "${regex}")
    message(FATAL_ERROR "${what} wrote nothing that matches '${regex}':\n${text}")
  endif()
endfunction()

# Installs into an empty prefix.
function(install_into prefix)
  file(REMOVE_RECURSE "${prefix}")
  run("cmake --install" ${CMAKE_COMMAND} --install "${BUILD}" --prefix "${prefix}")
endfunction()

# Configures and builds the project against the package in `prefix`, and no other; further arguments go to cmake.
function(build_project project prefix build)
  file(REMOVE_RECURSE "${build}")
  run("configuring ${project}" ${CMAKE_COMMAND} -S "${project}" -B "${build}" -G Ninja -DCMAKE_BUILD_TYPE=Release
      -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_PREFIX_PATH=${prefix}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF ${ARGN})
  run("building ${project}" ${CMAKE_COMMAND} --build "${build}")
endfunction()
