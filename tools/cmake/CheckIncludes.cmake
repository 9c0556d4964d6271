# cmake -DROOT=... -P CheckIncludes.cmake: checks that no source includes what its part must not
# know. Prints each offending line with its file and fails; otherwise prints how many files it read.

set(no_backend "simgrid|boost|asio|liburing|cuda|yaml-cpp|nlohmann|CLI|sim|runtime|traces|programs")
set(forbidden_in_kernels
    "simgrid|boost|asio|liburing|yaml-cpp|nlohmann|CLI|core|policies|sim|runtime|traces|programs")
set(forbidden_in_core "${no_backend}|policies")
set(forbidden_in_core/base "core/order|core/engine|core/log")
set(forbidden_in_core/order "core/engine|core/log")
set(forbidden_in_core/engine "core/log")
set(forbidden_in_policies "${no_backend}|core/log")
set(forbidden_in_programs "simgrid|boost|liburing|cuda|sim|runtime|traces|policies")
set(forbidden_in_programs/config "programs/input|programs/output")
set(forbidden_in_programs/input "programs/output")
set(forbidden_in_programs/output "programs/input")
set(forbidden_in_traces "simgrid|liburing|cuda|sim|runtime|programs")
set(forbidden_in_sim "liburing|cuda|runtime")
set(forbidden_in_sim/faults "simgrid|sim/world|programs")
set(forbidden_in_runtime "simgrid|sim")

set(offences 0)
set(files_read 0)
foreach(part kernels core core/base core/order core/engine policies programs programs/config programs/input
        programs/output traces sim sim/faults runtime)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${part}/*.h ${ROOT}/${part}/*.cpp
       ${ROOT}/${part}/*.cu)
  foreach(file ${files})
    math(EXPR files_read "${files_read} + 1")
    set(forbidden "${forbidden_in_${part}}")
    if(part STREQUAL "sim" AND NOT file MATCHES "^sim/world/")
      string(APPEND forbidden "|simgrid|sim/world")  # only the world knows SimGrid
    endif()
    if(file MATCHES "^policies/plugin/")
      string(REPLACE "|nlohmann" "" forbidden "${forbidden}")  # certificates are JSON
    endif()
    file(STRINGS ${ROOT}/${file} lines
         REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"](${forbidden})[/._]")
    if(file MATCHES "^programs/config/")
      list(FILTER lines EXCLUDE REGEX "policies/apart/")  # a journal has what these answered
    endif()
    foreach(line ${lines})
      message("${file}: ${part}/ must not contain: ${line}")
      math(EXPR offences "${offences} + 1")
    endforeach()
  endforeach()
endforeach()
if(files_read EQUAL 0)
  message(FATAL_ERROR "no sources under ${ROOT}")
elseif(offences)
  message(FATAL_ERROR "${offences} includes cross a boundary")
endif()
message("${files_read} files keep to their boundaries")
