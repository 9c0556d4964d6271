# Fuzzers: tests/fuzz/NAME/fuzz.cpp defines LLVMFuzzerTestOneInput for one parser, tests/fuzz/NAME/corpus
# is where it begins. With BATCHFLOW_FUZZERS and clang each is a libFuzzer program fuzz_NAME:
#
#   cmake -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DBATCHFLOW_FUZZERS=ON -DBATCHFLOW_SANITIZE=address,undefined
#   ninja -C build/fuzz fuzz_tar && build/fuzz/bin/fuzz_tar tests/fuzz/tar/corpus
#
# Everywhere it is a part of test_PART, too, which calls it as fuzz_NAME (tests/fuzz/corpus.h).

# batchflow_fuzzer(tar sources): for the parser in batchflow::sources; a third name is the test's
# where it is another.
function(batchflow_fuzzer name part)
  set(test ${part} ${ARGN})
  list(GET test -1 test)
  set(source ${CMAKE_SOURCE_DIR}/tests/fuzz/${name}/fuzz.cpp)
  add_library(batchflow_fuzz_${name} OBJECT ${source})
  target_compile_definitions(batchflow_fuzz_${name} PRIVATE LLVMFuzzerTestOneInput=fuzz_${name})
  target_link_libraries(batchflow_fuzz_${name} PRIVATE batchflow::${part})
  target_link_libraries(test_${test} PRIVATE batchflow_fuzz_${name})
  if(BATCHFLOW_FUZZERS)
    add_executable(fuzz_${name} ${source})
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${name} PRIVATE batchflow::${part})
  endif()
endfunction()
