# The kinds of pictures that are decoded beside JPEG, PNG and BMP, where their libraries are installed.
# BATCHFLOW_PICTURES has a name for each that is, as WEBP; it is also what C++ sees as BATCHFLOW_WEBP.

include_guard()
set(BATCHFLOW_PICTURES "")
find_package(PkgConfig QUIET)
foreach(kind "WEBP;libwebp;1.2.2;libwebp-dev" "TIFF;libtiff-4;4.5.0;libtiff-dev" "AVIF;libavif;0.11.0;libavif-dev")
  list(GET kind 0 name)
  list(GET kind 1 library)
  list(GET kind 2 version)
  list(GET kind 3 package)
  option(BATCHFLOW_${name} "Decode ${name} pictures where ${library} is installed" ON)
  if(PkgConfig_FOUND AND BATCHFLOW_${name})
    pkg_check_modules(BATCHFLOW_LIB${name} QUIET IMPORTED_TARGET ${library}>=${version})
  endif()
  if(BATCHFLOW_${name} AND BATCHFLOW_LIB${name}_FOUND)
    list(APPEND BATCHFLOW_PICTURES ${name})
    if(BATCHFLOW_PORTABLE)  # a static library does not bring what it needs
      set(all_needed ${BATCHFLOW_LIB${name}_STATIC_LIBRARIES})
      list(FILTER all_needed EXCLUDE REGEX "^(c|m|dl|rt|pthread)$")  # glibc
      foreach(needed ${all_needed})
        find_library(BATCHFLOW_STATIC_${needed} ${needed} REQUIRED)
        set_property(TARGET PkgConfig::BATCHFLOW_LIB${name} APPEND PROPERTY
                     INTERFACE_LINK_LIBRARIES ${BATCHFLOW_STATIC_${needed}})
      endforeach()
    endif()
  else()
    message(STATUS "${library} ${version} was not found or is not wanted: pictures in ${name} are refused "
            "(apt-get install ${package})")
  endif()
endforeach()

# Tells `target` what is there.
function(batchflow_pictures target scope)
  foreach(name ${BATCHFLOW_PICTURES})
    target_compile_definitions(${target} ${scope} BATCHFLOW_${name})
  endforeach()
endfunction()
