# How plugins of policies are compiled and linked.

# batchflow_policy_options(TARGET FOLDER): what compiling with the headers in FOLDER takes.
function(batchflow_policy_options target folder)
  target_include_directories(${target} INTERFACE ${folder})
  target_compile_features(${target} INTERFACE cxx_std_20)
  # No multiplication and addition become one instruction: decisions are the same on all machines.
  target_compile_options(${target} INTERFACE -fvisibility=hidden -ffp-contract=off
                         $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>)
endfunction()

# batchflow_add_policy_plugin(NAME SOURCE...): builds the plugin NAME.so.
function(batchflow_add_policy_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE BatchFlow::policy)
  target_link_options(${name} PRIVATE -Wl,-z,defs)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX .so CXX_EXTENSIONS OFF)
endfunction()
