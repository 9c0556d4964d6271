# What plugins of policies are built from: the headers below, under one folder, by the paths that
# they have here, and policies/make.h, which is another one in plugins.
set(BATCHFLOW_SDK_HEADERS
  core/base/check.h
  core/base/names.h
  core/base/parameters.h
  core/base/random.h
  core/base/real_functions.h
  core/base/saturating.h
  core/base/types.h
  core/base/zero_array.h
  core/base/zeroed_memory.h
  core/engine/exemplar.h
  core/engine/policy.h
  core/engine/policy_list.h
  core/engine/policy_texts.h
  core/engine/preset.h
  policies/allocation_forms.h
  policies/dense_heap.h
  policies/dense_list.h
  policies/dispatch_choose.h
  policies/eviction_list.h
  policies/ghost_queue.h
  policies/mixture_bounded.h
  policies/rehearsal_leaving.h
  policies/selection_in_turn.h
  policies/plugin/batchflow_policy.h
  policies/plugin/fallback.h
  policies/plugin/guarded.h
  policies/plugin/layout.h
  policies/plugin/plugin.h
  policies/plugin/tables.h)

# A copy of all that is installed of it, by which the tests build plugins as users do, and users of
# this build folder.
set(BATCHFLOW_SDK ${CMAKE_BINARY_DIR}/sdk)
set(BATCHFLOW_SDK_INCLUDE ${BATCHFLOW_SDK}/include/batchflow)
foreach(header ${BATCHFLOW_SDK_HEADERS})
  configure_file(${CMAKE_SOURCE_DIR}/${header} ${BATCHFLOW_SDK_INCLUDE}/${header} COPYONLY)
endforeach()
configure_file(${CMAKE_SOURCE_DIR}/policies/plugin/sdk/make.h
               ${BATCHFLOW_SDK_INCLUDE}/policies/make.h COPYONLY)

include(CMakePackageConfigHelpers)
# batchflow_sdk_config(FOLDER PREFIX): writes the package's files for CMake; from there, the prefix.
function(batchflow_sdk_config folder BATCHFLOW_PREFIX_FROM_CONFIG)
  set(sdk ${CMAKE_SOURCE_DIR}/policies/plugin/sdk)
  configure_file(${sdk}/BatchFlowConfig.cmake.in ${folder}/BatchFlowConfig.cmake @ONLY)
  configure_file(${sdk}/BatchFlowPolicy.cmake ${folder}/BatchFlowPolicy.cmake COPYONLY)
  write_basic_package_version_file(${folder}/BatchFlowConfigVersion.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
endfunction()
batchflow_sdk_config(${BATCHFLOW_SDK}/lib/cmake/BatchFlow ../../..)
set(BATCHFLOW_SDK_INCLUDE ${BATCHFLOW_SDK_INCLUDE} PARENT_SCOPE)
