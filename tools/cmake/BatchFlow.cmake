# What every target of BatchFlow shares, and the proof that its parts keep to their boundaries.

include_guard()

option(BATCHFLOW_WERROR "Warnings are errors" ON)
set(BATCHFLOW_SANITIZE "" CACHE STRING "Sanitizers for all targets, as for -fsanitize=")

add_library(batchflow_options INTERFACE)
target_include_directories(batchflow_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(batchflow_options INTERFACE
  -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -ffp-contract=off
  $<$<BOOL:${BATCHFLOW_WERROR}>:-Werror>)
if(BATCHFLOW_SANITIZE)
  target_compile_options(batchflow_options INTERFACE
    -fsanitize=${BATCHFLOW_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(batchflow_options INTERFACE -fsanitize=${BATCHFLOW_SANITIZE})
endif()

# A package of the distribution: found, or the message says what to install.
macro(batchflow_require package version debian_package)
  find_package(${package} ${version} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} ${version} or newer was not found; "
            "install it with: apt-get install ${debian_package}   (or run ./dev build)")
  endif()
endmacro()

# batchflow_library(core SOURCES ... LINKS ...): target batchflow_core, alias batchflow::core.
function(batchflow_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(batchflow_${name} STATIC ${ARG_SOURCES})
  add_library(batchflow::${name} ALIAS batchflow_${name})
  target_link_libraries(batchflow_${name} PUBLIC batchflow_options ${ARG_LINKS})
endfunction()

# All targets that `target` links, directly or not.
function(batchflow_closure target result)
  set(open ${target})
  set(closed)
  while(open)
    list(POP_FRONT open next)
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

# core and policies link std, fmt and Eigen alone; sim and runtime do not know each other.
function(batchflow_check_boundaries)
  foreach(target batchflow_core batchflow_policies)
    batchflow_closure(${target} links)
    foreach(link ${links})
      if(NOT link MATCHES "^(batchflow_options|batchflow_core|batchflow::core|fmt::fmt|Eigen3::Eigen|Threads::Threads)$")
        message(FATAL_ERROR "${target} must not link ${link}: core and policies know no backend")
      endif()
    endforeach()
  endforeach()
  foreach(pair "sim;runtime" "runtime;sim" "runtime;SimGrid")
    list(GET pair 0 from)
    list(GET pair 1 to)
    if(TARGET batchflow_${from})
      batchflow_closure(batchflow_${from} links)
      if(links MATCHES "(batchflow_${to}|batchflow::${to}|${to}::)")
        message(FATAL_ERROR "${from} must not link ${to}")
      endif()
    endif()
  endforeach()
endfunction()
