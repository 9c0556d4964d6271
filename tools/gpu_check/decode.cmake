# The part of gpu_check that decodes: batchflow::gpu_check_decode.
if(BATCHFLOW_HAS_CUDA AND TARGET batchflow_gpu_decode)
  add_library(batchflow_gpu_check_decode STATIC
    ${CMAKE_CURRENT_LIST_DIR}/decode_check.cpp ${CMAKE_CURRENT_LIST_DIR}/decode_rates.cpp
    ${CMAKE_CURRENT_LIST_DIR}/slow_compare.cu)
  add_library(batchflow::gpu_check_decode ALIAS batchflow_gpu_check_decode)
  batchflow_cuda(batchflow_gpu_check_decode)
  target_link_libraries(batchflow_gpu_check_decode PUBLIC batchflow::gpu_decode batchflow::kernels_gpu)
endif()
