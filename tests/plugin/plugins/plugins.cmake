# Plugins, built as users build them: with the headers of the SDK alone, into build/*/plugins. Each
# file of this folder is one, but for mischief.cpp and dispatching.cpp, which are one for each thing
# that they do.
set(BATCHFLOW_TEST_PLUGIN_FOLDER ${CMAKE_BINARY_DIR}/plugins)
set(BATCHFLOW_TEST_PLUGIN_FOLDER ${CMAKE_BINARY_DIR}/plugins PARENT_SCOPE)

function(batchflow_test_plugin name)
  batchflow_add_policy_plugin(batchflow_plugin_${name} ${ARGN})
  set_target_properties(batchflow_plugin_${name} PROPERTIES OUTPUT_NAME ${name}
    LIBRARY_OUTPUT_DIRECTORY ${BATCHFLOW_TEST_PLUGIN_FOLDER})
  target_compile_options(batchflow_plugin_${name} PRIVATE -Wall -Wextra -Wno-shadow
    $<$<BOOL:${BATCHFLOW_WERROR}>:-Werror>)
  set(BATCHFLOW_POLICY_PLUGINS ${BATCHFLOW_POLICY_PLUGINS} batchflow_plugin_${name} PARENT_SCOPE)
endfunction()

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
list(FILTER sources EXCLUDE REGEX "/(mischief|dispatching)\\.cpp$")
foreach(source ${sources})
  get_filename_component(name ${source} NAME_WE)
  batchflow_test_plugin(${name} ${source})
endforeach()

enable_language(C)
batchflow_test_plugin(in_c ${CMAKE_CURRENT_LIST_DIR}/in_c.c)

set(mischiefs
  THROWS CRASHES HANGS EXITS STARTS_THREAD CHANGES_HANDLER CHANGES_LOCALE CHANGES_FOLDER
  MISREPORTS_VERSION ANSWERS_NULL BREAKS_PROMISE OTHER_VERSION OTHER_PLATFORM CUT_TABLE NO_VICTIM
  BAD_NAME BAD_PARAMETER BAD_KIND FAILS_TO_MAKE TAKEN_NAME THROWS_LATER ANSWERS_RUBBISH HANGS_LATER
  CRASHES_LATER OPENS_FILE READS_CLOCK FORKS PRINTS SLEEPS STARTS_THREAD_LATER LEAKS PLAIN
  USES_ADDRESSES PEEKS)
foreach(mischief ${mischiefs})
  string(TOLOWER ${mischief} name)
  batchflow_test_plugin(${name} ${CMAKE_CURRENT_LIST_DIR}/mischief.cpp)
  target_compile_definitions(batchflow_plugin_${name} PRIVATE ${mischief})
endforeach()
foreach(mischief THROWS CRASHES ABORTS HANGS SLEEPS HOLDS_BACK ANSWERS_RUBBISH DAWDLES
        COUNTS)
  string(TOLOWER dispatch_${mischief} name)
  batchflow_test_plugin(${name} ${CMAKE_CURRENT_LIST_DIR}/dispatching.cpp)
  target_compile_definitions(batchflow_plugin_${name} PRIVATE DISPATCH_${mischief})
endforeach()
# It changes how numbers are rounded, by what the compiler links into it.
batchflow_test_plugin(fast_math ${CMAKE_CURRENT_LIST_DIR}/mischief.cpp)
target_compile_options(batchflow_plugin_fast_math PRIVATE -Ofast)
target_link_options(batchflow_plugin_fast_math PRIVATE -Ofast)

# Built-in policies, from the files that they have here.
foreach(policy eviction_lru eviction_s3fifo eviction_gdsf dispatch_round_robin
        dispatch_earliest_deadline dispatch_nearest_by_link selection_deepio scaling_look_ahead allocation_equal
        rehearsal_reservoir rehearsal_prioritised mixture_softmax)
  set(file ${BATCHFLOW_TEST_PLUGIN_FOLDER}/${policy}.cpp)
  file(CONFIGURE OUTPUT ${file} CONTENT
       "#include \"policies/@policy@.cpp\"\n#include \"policies/plugin/plugin.h\"\nBATCHFLOW_POLICY_PLUGIN(\"@policy@\", \"1\", batchflow::policies::@policy@)\n" @ONLY)
  batchflow_test_plugin(${policy} ${file})
  target_include_directories(batchflow_plugin_${policy} BEFORE PRIVATE ${BATCHFLOW_SDK_INCLUDE}
                             ${CMAKE_SOURCE_DIR})
endforeach()

# The guide's examples of policies that jobs ask for.
foreach(policy rehearsal_newest mixture_hardest_half)
  set(file ${BATCHFLOW_TEST_PLUGIN_FOLDER}/${policy}.cpp)
  file(CONFIGURE OUTPUT ${file} CONTENT
       "#include \"docs/examples/@policy@.cpp\"\n#include \"policies/plugin/plugin.h\"\nBATCHFLOW_POLICY_PLUGIN(\"@policy@\", \"1\", batchflow::policies::@policy@)\n" @ONLY)
  batchflow_test_plugin(${policy} ${file})
  target_include_directories(batchflow_plugin_${policy} BEFORE PRIVATE ${BATCHFLOW_SDK_INCLUDE}
                             ${CMAKE_SOURCE_DIR})
endforeach()

# Built with another standard library, where there is one.
find_program(BATCHFLOW_CLANG NAMES clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)
set(other ${BATCHFLOW_TEST_PLUGIN_FOLDER}/other_library.so)
if(BATCHFLOW_CLANG)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/libcpp.cpp "#include <span>\n#include <string>\n")
  execute_process(COMMAND ${BATCHFLOW_CLANG} -std=c++20 -stdlib=libc++ -fsyntax-only
                          ${CMAKE_CURRENT_BINARY_DIR}/libcpp.cpp
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(source ${BATCHFLOW_TEST_PLUGIN_FOLDER}/eviction_gdsf.cpp)
    add_custom_command(OUTPUT ${other} DEPENDS ${source} batchflow_plugin_eviction_gdsf
      COMMAND ${BATCHFLOW_CLANG} -std=c++20 -stdlib=libc++ -O2 -fPIC -shared -fvisibility=hidden
              -I${BATCHFLOW_SDK_INCLUDE} -I${CMAKE_SOURCE_DIR} ${source} -o ${other})
    add_custom_target(batchflow_plugin_other_library DEPENDS ${other})
    list(APPEND BATCHFLOW_POLICY_PLUGINS batchflow_plugin_other_library)
  endif()
endif()
set(BATCHFLOW_POLICY_PLUGINS ${BATCHFLOW_POLICY_PLUGINS} PARENT_SCOPE)
