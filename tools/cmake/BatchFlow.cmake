# Functions for every target of BatchFlow, and the check that its parts keep to their boundaries.

include_guard()
include(CheckLinkerFlag)

set(BATCHFLOW_SANITIZE "" CACHE STRING "Sanitizers for all targets, as for -fsanitize=")

# A newer compiler may warn of more, and GCC warns of what its own sanitizers insert, and of fmt's
# code where that is compiled into each file (BATCHFLOW_PORTABLE); none of this must
# keep a user from building. So warnings are errors with the compiler that the project is developed
# with, in plain builds, and a choice elsewhere.
set(werror OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13
   AND NOT BATCHFLOW_SANITIZE AND NOT BATCHFLOW_PORTABLE)
  set(werror ON)
endif()
option(BATCHFLOW_WERROR "Warnings are errors" ${werror})

add_library(batchflow_options INTERFACE)
target_include_directories(batchflow_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(batchflow_options INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wconversion;-Wno-sign-conversion;-Wshadow>"
  "$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;$<$<BOOL:${BATCHFLOW_WERROR}>:-Werror>>")
# A wheel is made of what ./dev has compiled already, where ccache remembers it.
if(SKBUILD AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED ENV{CCACHE_DISABLE})
  find_program(BATCHFLOW_CCACHE NAMES ccache)
  if(BATCHFLOW_CCACHE)
    execute_process(COMMAND ${BATCHFLOW_CCACHE} --get-config cache_dir
                    OUTPUT_VARIABLE cache OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND test -w "${cache}" RESULT_VARIABLE not_writable)
    if(NOT not_writable)
      foreach(language C CXX)
        set(CMAKE_${language}_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
            CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${BATCHFLOW_CCACHE})
      endforeach()
    endif()
  endif()
endif()
# Installed files do not name the folder that they were built in. ccache compiles from there by
# itself (CCACHE_BASEDIR); with the folder in its arguments no clone would find what another has
# compiled.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER MATCHES "(^|/)ccache$")
  target_compile_options(batchflow_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Both warn of correct std::string and std::vector code in GCC 12 (its bugs 105651 and 105562).
  target_compile_options(batchflow_options INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:-Wno-restrict;-Wno-maybe-uninitialized>")
endif()
if(BATCHFLOW_SANITIZE)
  target_compile_options(batchflow_options INTERFACE
    -fsanitize=${BATCHFLOW_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_definitions(batchflow_options INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(batchflow_options INTERFACE -fsanitize=${BATCHFLOW_SANITIZE})
endif()

# Each parser is compiled so that a fuzzer sees which of its branches an input takes (tests/fuzz).
option(BATCHFLOW_FUZZERS "Build fuzzers with libFuzzer" OFF)
if(BATCHFLOW_FUZZERS)
  target_compile_options(batchflow_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(batchflow_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# A faster linker where there is one; nothing depends on it.
foreach(linker mold lld)
  find_program(BATCHFLOW_${linker} NAMES ${linker} ld.${linker})
  if(BATCHFLOW_${linker} AND CMAKE_CXX_COMPILER_LOADED)
    check_linker_flag(CXX -fuse-ld=${linker} BATCHFLOW_LINKS_WITH_${linker})
    if(BATCHFLOW_LINKS_WITH_${linker})
      target_link_options(batchflow_options INTERFACE -fuse-ld=${linker})
      break()
    endif()
  endif()
endforeach()

# A package of the distribution: found, or the message says what to install. Versions are compared
# here, because the version files of some packages refuse newer minor versions, which are welcome.
macro(batchflow_require package version debian_package)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND OR
     (DEFINED ${package}_VERSION AND ${package}_VERSION VERSION_LESS ${version}))
    message(FATAL_ERROR "${package} ${version} or newer was not found; "
            "install it with: apt-get install ${debian_package}   (or run ./dev build)")
  endif()
endmacro()

# Most of the time of a build goes into headers, and into templates that many files use alike. So
# several files of a target are compiled as one. Not in the preset tsan, where a file that forgets
# an include is noticed.
option(BATCHFLOW_UNITY "Compile several files of a target as one" OFF)

# batchflow_joined(RESULT TARGET FILES_AT_ONCE SOURCE...): the files to compile in place of these
# sources. CMake's own UNITY_BUILD writes the place of the repository into them, so that no clone
# would find what another has compiled.
function(batchflow_joined result target files_at_once)
  set(${result} ${ARGN} PARENT_SCOPE)
  list(LENGTH ARGN count)
  if(NOT BATCHFLOW_UNITY OR count LESS 2)
    return()
  endif()
  math(EXPR batches "(${count} + ${files_at_once} - 1) / ${files_at_once}")
  math(EXPR last "${count} - 1")
  foreach(index RANGE ${last})
    list(GET ARGN ${index} source)
    get_filename_component(source ${source} ABSOLUTE)
    file(RELATIVE_PATH source ${CMAKE_SOURCE_DIR} ${source})
    math(EXPR batch "${index} * ${batches} / ${count}")
    string(APPEND text_${batch} "#include \"${source}\"\n")
  endforeach()
  math(EXPR last "${batches} - 1")
  set(joined)
  foreach(batch RANGE ${last})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}.unity/${batch}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${batch}}" @ONLY)
    list(APPEND joined ${file})
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # To GCC all that is joined is a header, in which it warns of classes with unnamed parts.
    set_source_files_properties(${joined} PROPERTIES COMPILE_OPTIONS -Wno-subobject-linkage)
  endif()
  set(${result} ${joined} PARENT_SCOPE)
endfunction()

# batchflow_library(order [COLD] SOURCES ... [ALONE ...] LINKS ...): target batchflow_order, alias
# batchflow::order. Sources that are ALONE share their unnamed names with no other file. COLD: what
# reads what a person wrote, and prints what a person reads. It is built in half the time where it is
# hardly optimised.
function(batchflow_library name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;ALONE;LINKS" ${ARGN})
  if(ARG_ALONE)
    list(REMOVE_ITEM ARG_SOURCES ${ARG_ALONE})
  endif()
  batchflow_joined(sources batchflow_${name} 8 ${ARG_SOURCES})
  add_library(batchflow_${name} STATIC ${sources} ${ARG_ALONE})
  add_library(batchflow::${name} ALIAS batchflow_${name})
  if(ARG_COLD AND NOT BATCHFLOW_SANITIZE)
    target_compile_options(batchflow_${name} PRIVATE -O1)
  endif()
  target_link_libraries(batchflow_${name} PUBLIC batchflow_options ${ARG_LINKS})
endfunction()

# All targets and libraries that `target` links, directly or not.
function(batchflow_closure target result)
  set(open ${target})
  set(closed)
  while(open)
    list(POP_FRONT open next)
    if(TARGET ${next})
      get_target_property(real ${next} ALIASED_TARGET)
      if(real)
        set(next ${real})
      endif()
    endif()
    if(next IN_LIST closed)
      continue()
    endif()
    list(APPEND closed ${next})
    if(TARGET ${next})
      foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
        get_target_property(links ${next} ${property})
        if(links)
          foreach(link ${links})
            string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
            list(APPEND open ${link})
          endforeach()
        endif()
      endforeach()
    endif()
  endwhile()
  list(REMOVE_ITEM closed ${target})
  set(${result} ${closed} PARENT_SCOPE)
endfunction()

# batchflow_must_not_link(TARGET REGEX [MAY_BE_MISSING]): an error when TARGET links such a name, or
# is not there. A target that may be missing is left out where its packages are not installed.
function(batchflow_must_not_link target pattern)
  if(NOT TARGET ${target})
    if(NOT "MAY_BE_MISSING" IN_LIST ARGN)
      message(FATAL_ERROR "${target} is no target, so what it links cannot be checked")
    endif()
    return()
  endif()
  batchflow_closure(${target} links)
  foreach(link ${links})
    string(TOLOWER ${link} name)
    if(name MATCHES "${pattern}")
      message(FATAL_ERROR "${target} must not link ${link}")
    endif()
  endforeach()
endfunction()

# core and policies link std, fmt and Eigen alone; sim and runtime do not know each other. The test
# `boundaries.includes` checks what the files include.
function(batchflow_check_boundaries)
  foreach(target batchflow_core batchflow_policies)
    batchflow_closure(${target} links)
    foreach(link ${links})
      if(NOT link MATCHES "^(batchflow_(options|core|base|order|engine|log)|fmt::fmt|Eigen3::Eigen)$")
        message(FATAL_ERROR "${target} must not link ${link}: core and policies know no backend")
      endif()
    endforeach()
  endforeach()
  set(runtime audio video batch failpoint memory objects sources feeds storage step gpu_memory protocol child client toys)
  set(runtime_with_packages prepare remote service ctl gpu_decode)
  list(JOIN runtime "|" names)
  list(JOIN runtime_with_packages "|" more_names)
  set(no_runtime "^batchflow_(${names}|${more_names}|client_library)$|uring|cuda")
  set(no_sim "^batchflow_(sim|world|faults|forked_runs|simulate_missing)$|simgrid")
  # SimGrid's distribution packages link GPL libraries: it stays in the simulated world, which only
  # the simulator's program and its tests link.
  batchflow_must_not_link(batchflow_sim "${no_runtime}|^batchflow_world$|simgrid")
  batchflow_must_not_link(batchflow_world "${no_runtime}|^batchflow_sim$" MAY_BE_MISSING)
  batchflow_must_not_link(batchflow_faults "${no_runtime}|^batchflow_(sim|world)$|simgrid")
  foreach(room config input output version traces)
    batchflow_must_not_link(batchflow_${room} "${no_runtime}|${no_sim}")
  endforeach()
  foreach(room ${runtime})
    batchflow_must_not_link(batchflow_${room} "${no_sim}")
  endforeach()
  foreach(room ${runtime_with_packages})
    batchflow_must_not_link(batchflow_${room} "${no_sim}" MAY_BE_MISSING)
  endforeach()
endfunction()
