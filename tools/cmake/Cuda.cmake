# CUDA, where a toolkit is installed: BATCHFLOW_HAS_CUDA, the function batchflow_cuda(TARGET), and
# nvJPEG's header where it is there (target batchflow::nvjpeg). Without a toolkit everything else is built.

include_guard()
set(BATCHFLOW_CUDA "auto" CACHE STRING "Build what runs on GPUs: on, off or auto")
set_property(CACHE BATCHFLOW_CUDA PROPERTY STRINGS auto on off)
set(BATCHFLOW_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING
    "GPUs to build for; the last one as PTX for those that come later")
set(BATCHFLOW_HAS_CUDA OFF)

if(NOT BATCHFLOW_CUDA STREQUAL "off" AND NOT BATCHFLOW_SANITIZE)
  find_program(BATCHFLOW_NVCC NAMES nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin /opt/cuda/bin)
  if(BATCHFLOW_NVCC)
    set(CMAKE_CUDA_COMPILER ${BATCHFLOW_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${BATCHFLOW_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    # CMake before 3.26 does not know the flag.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
    endif()
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    find_package(CUDAToolkit 12.8 REQUIRED)
    set(BATCHFLOW_HAS_CUDA ON)
  elseif(BATCHFLOW_CUDA STREQUAL "on")
    message(FATAL_ERROR "BATCHFLOW_CUDA is on, and there is no nvcc; install CUDA Toolkit 12.8 or "
            "newer, or set BATCHFLOW_NVCC to its nvcc")
  endif()
endif()
if(NOT BATCHFLOW_HAS_CUDA)
  message(STATUS "No CUDA toolkit is used: what runs on GPUs is left out, and runs on CPUs")
endif()

# The header of nvJPEG: of the toolkit, or of the Python package nvidia-nvjpeg below BATCHFLOW_NVJPEG.
# The library is loaded by the program when it decodes, so that it starts without it.
if(BATCHFLOW_HAS_CUDA)
  set(BATCHFLOW_NVJPEG "" CACHE PATH
      "Folder with include/nvjpeg.h, as nvidia/cu13 of the Python package nvidia-nvjpeg")
  find_path(BATCHFLOW_NVJPEG_INCLUDE nvjpeg.h HINTS ${BATCHFLOW_NVJPEG}/include
            ${CUDAToolkit_INCLUDE_DIRS})
  if(BATCHFLOW_NVJPEG_INCLUDE)
    add_library(batchflow_nvjpeg INTERFACE)
    add_library(batchflow::nvjpeg ALIAS batchflow_nvjpeg)
    target_include_directories(batchflow_nvjpeg SYSTEM INTERFACE ${BATCHFLOW_NVJPEG_INCLUDE})
    target_link_libraries(batchflow_nvjpeg INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
  else()
    message(STATUS "nvjpeg.h was not found: pictures are decoded on CPUs; get it with: "
            "pip install nvidia-nvjpeg, and set BATCHFLOW_NVJPEG to its folder nvidia/cu13")
  endif()
endif()

# CUDA sources compute as the CPU does: no sum of products is rounded once, and divisions and roots
# are exact.
function(batchflow_cuda target)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
                        CUDA_SEPARABLE_COMPILATION OFF POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false -Xcompiler=-Wall,-Wextra,-ffp-contract=off>)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC CUDA::cudart_static)
endfunction()
