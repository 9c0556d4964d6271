# Programs and libraries that are copied to other machines: with BATCHFLOW_PORTABLE what is neither
# glibc nor CUDA's driver is linked statically. batchflow_portable(TARGET) marks those.

include_guard()
option(BATCHFLOW_PORTABLE "Link what other machines may lack statically" OFF)
if(BATCHFLOW_PORTABLE)
  add_compile_definitions(FMT_HEADER_ONLY)  # distributions have no static one
  list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()

function(batchflow_portable target)
  if(BATCHFLOW_PORTABLE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:--as-needed
                        LINKER:--exclude-libs,ALL)
  endif()
endfunction()
