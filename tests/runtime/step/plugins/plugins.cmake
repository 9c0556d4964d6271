# Plugins as users build them: by the header alone, into build/*/steps.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
list(APPEND sources ${CMAKE_SOURCE_DIR}/runtime/step/template.cpp)
set(BATCHFLOW_TEST_STEPS ${CMAKE_BINARY_DIR}/steps)
foreach(source ${sources})
  get_filename_component(name ${source} NAME_WE)
  add_library(batchflow_step_${name} MODULE ${source})
  target_include_directories(batchflow_step_${name} PRIVATE ${CMAKE_SOURCE_DIR}/runtime/step)
  target_compile_options(batchflow_step_${name} PRIVATE -Wall -Wextra -Wno-shadow
    $<$<BOOL:${BATCHFLOW_WERROR}>:-Werror>)
  set_target_properties(batchflow_step_${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${BATCHFLOW_TEST_STEPS})
  list(APPEND BATCHFLOW_TEST_PLUGINS batchflow_step_${name})
endforeach()
