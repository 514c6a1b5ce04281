# SPDX-License-Identifier: Apache-2.0
# Finds nvcc and sets TR_HAS_CUDA; after project(), before the folders.

set(TR_HAS_CUDA OFF)
if(NOT TR_CUDA STREQUAL "OFF")
  find_program(TR_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(TR_NVCC)
    set(CMAKE_CUDA_COMPILER ${TR_NVCC} CACHE FILEPATH "nvcc")
    set(CMAKE_CUDA_ARCHITECTURES ${TR_CUDA_ARCHITECTURES})
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    set(CMAKE_CUDA_STANDARD 17)  # while CMake tries the compiler
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc speaks C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    find_package(CUDAToolkit REQUIRED)
    set(TR_HAS_CUDA ON)
    if(TR_CCACHE)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${TR_CCACHE})
    endif()
    target_compile_options(tr_flags INTERFACE
        "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--expt-relaxed-constexpr;-Xcompiler=-ffp-contract=off,-fvisibility=hidden>")
  elseif(TR_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TR_CUDA=ON, but there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda")
  endif()
endif()
if(NOT TR_HAS_CUDA)
  message(STATUS "CUDA backend: not built (TR_CUDA=${TR_CUDA}, no nvcc found or wanted)")
endif()
