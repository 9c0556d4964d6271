# Programs and libraries that are copied to other machines: with BATCHFLOW_PORTABLE what is neither
# glibc nor CUDA's driver is linked statically. The simulator still needs SimGrid, which is shared.

include_guard()
option(BATCHFLOW_PORTABLE "Link what other machines may lack statically" OFF)
if(NOT BATCHFLOW_PORTABLE)
  return()
endif()
add_compile_definitions(FMT_HEADER_ONLY)  # distributions have no static one
list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES .a)
# Nor one of libavif, or of what libsndfile and FFmpeg need; the next machine may have another version of the
# shared ones.
set(BATCHFLOW_AVIF OFF CACHE BOOL "" FORCE)
set(BATCHFLOW_SNDFILE OFF CACHE BOOL "" FORCE)
set(BATCHFLOW_FFMPEG OFF CACHE BOOL "" FORCE)
# Nothing of these is seen from outside: a process may have other versions of them.
add_link_options(-static-libstdc++ -static-libgcc LINKER:--as-needed LINKER:--exclude-libs,ALL)
