# SPDX-License-Identifier: Apache-2.0
# cmake -DFOLDER=src/backend/cuda -DOUTPUT=FILE.cpp -P HashSources.cmake
# Writes a C++ file with the SHA-256 of the folder's sources; leaves it alone if it has that already.
file(GLOB sources ${FOLDER}/*.cu ${FOLDER}/*.cuh ${FOLDER}/*.cpp ${FOLDER}/*.h ${FOLDER}/../elementwise_functors.h)
list(SORT sources)
set(hashes "")
foreach(source ${sources})
  file(SHA256 ${source} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUTPUT}.new "// Made by cmake/HashSources.cmake.
#include \"backend/cuda/engine_bench.h\"
const char* tr::cuda::kernel_sources_hash() { return \"${hash}\"; }
")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUTPUT}.new ${OUTPUT})
