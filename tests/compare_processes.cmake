# cmake -DPROGRAM=test_x -P compare_processes.cmake: runs the program's suite "digests" in two
# processes, with memory at different addresses, and names the first line in which their digests
# differ.

foreach(run 1 2)
  string(REPEAT "x" ${run}0000 padding)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env BATCHFLOW_PRINT_DIGESTS=1 PADDING=${padding}
            ${PROGRAM} --test-suite=digests --minimal
    OUTPUT_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} failed:\n${output}")
  endif()
  string(REGEX MATCHALL "digest [^\n]*" digests${run} "${output}")
endforeach()

list(LENGTH digests1 count)
if(count EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} printed no digests")
endif()
foreach(one other IN ZIP_LISTS digests1 digests2)
  if(NOT one STREQUAL other)
    message(FATAL_ERROR "two processes differ first in\n  ${one}\n  ${other}")
  endif()
endforeach()
message("${count} digests are the same in two processes")
